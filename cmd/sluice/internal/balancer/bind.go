package balancer

import (
	"context"
	"errors"
	"time"

	"sluice/cmd/sluice/internal/logs"

	"go.uber.org/zap"
)

// lookTime bounds the look-ups of all names that a reload, or a dry run, would
// listen on, since neither the API nor a stop goes on meanwhile. Chosen: a
// resolver asks its second server after 5 s.
const lookTime = 10 * time.Second

// looking bounds the look-ups of a reload. A stop ends them.
func (b *Balancer) looking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.lasting, lookTime)
}

// bind opens the sockets that p asks for. On an error it has closed them again,
// and what ran before runs as before.
func (b *Balancer) bind(ctx context.Context, p *plan) (opened []*socket, err error) {
	var closed []*socket // retired early, to make room for a new socket
	defer func() {
		if err != nil {
			closeAll(opened)
			b.restore(closed)
			opened = nil
		}
	}()
	opened, blocked, err := b.openFree(ctx, p)
	if err != nil {
		return opened, err
	}
	for _, w := range blocked {
		closed = append(closed, b.makeRoom(p, w)...)
		s, err := b.listen(ctx, w)
		if err != nil {
			return opened, err
		}
		opened = append(opened, s)
	}
	return opened, nil
}

// openFree opens the sockets whose address is free. blocked are those that have
// to wait until an overlapping socket, which p closes anyway, is gone. The error
// names every address that cannot be bound.
func (b *Balancer) openFree(ctx context.Context, p *plan) (opened []*socket, blocked []want, err error) {
	var errs []error
	for _, w := range p.open {
		s, err := b.listen(ctx, w)
		switch {
		case err == nil:
			opened = append(opened, s)
		case inUse(err) && len(p.inTheWay(w)) > 0:
			blocked = append(blocked, w)
		default:
			errs = append(errs, err)
		}
	}
	return opened, blocked, errors.Join(errs...)
}

// inTheWay returns the sockets that p closes and that may block w. One that the
// process was started with blocks it all the same when it is closed: somebody
// else has it as well.
func (p *plan) inTheWay(w want) (ss []*socket) {
	for _, s := range p.close {
		if !s.adopted && overlap(s.listen, w.listen) {
			ss = append(ss, s)
		}
	}
	return ss
}

// makeRoom closes the sockets in the way of w ahead of the swap.
func (b *Balancer) makeRoom(p *plan, w want) []*socket {
	ss := p.inTheWay(w)
	for _, s := range ss {
		s.close()
		delete(p.close, s.place)
		delete(b.sockets, s.place)
	}
	return ss
}

// restore binds again what makeRoom closed. An address that is lost, because
// somebody else was faster, is bound by the next reload that can.
func (b *Balancer) restore(closed []*socket) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	for _, was := range closed {
		s, err := b.listen(ctx, was.want)
		if err != nil {
			b.log.Error("address lost: a reload closed it and cannot bind it again", zap.NamedError(logs.Error, err))
			continue
		}
		b.feed(s)
	}
}

func closeAll(ss []*socket) {
	for _, s := range ss {
		s.close()
	}
}
