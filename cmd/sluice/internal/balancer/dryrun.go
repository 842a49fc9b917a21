package balancer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/l4"
	"sluice/pool"
)

// Plan tells what a reload would change, and what becomes of the sessions; with a
// text, what one of a file with that text would. It changes nothing and logs
// nothing. The error is the one of the reload, as far as that can be known.
func (b *Balancer) Plan(ctx context.Context, text []byte) (admin.Reloaded, error) {
	if err := b.take(ctx); err != nil { // one at a time: a large text costs
		return admin.Reloaded{}, err
	}
	defer b.give()
	c, err := b.sketch(text)
	if err != nil {
		return admin.Reloaded{}, b.mistakes(err)
	}
	defer b.lookUp(c)()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping {
		return admin.Reloaded{}, ErrStopping
	}
	if same(b.config, c) && b.bound(c) {
		done := b.answer(c, nil)
		done.DryRun = true
		return done, nil
	}
	return b.dryRun(c)
}

func (b *Balancer) sketch(text []byte) (*config.Config, error) {
	if len(text) > 0 {
		c, err := config.Sketch(admin.Sent, text, b.view.Load().config)
		if err == nil {
			b.options.place(c)
		}
		return c, err
	}
	l := b.load()
	return l.config, l.err
}

// dryRun is apply that stops before the first change.
func (b *Balancer) dryRun(c *config.Config) (admin.Reloaded, error) {
	p := b.plan(c)
	if err := b.noCircle(p); err != nil {
		return admin.Reloaded{}, b.mistakes(err)
	}
	ctx, cancel := b.looking()
	defer cancel()
	unknown, err := p.tryOpen(ctx)
	if err != nil {
		return admin.Reloaded{}, b.mistakes(err)
	}
	ears := b.ears(nil)
	for _, w := range p.open {
		ears = append(ears, ear{w.who(), w.listen})
	}
	done := b.answer(c, orOrder(b.edits(c, func(c config.Pool) []pool.Edit {
		full, _ := b.stand(c, ears)
		return b.foresee(full)
	})))
	done.DryRun, done.Unknown = true, append(unknown, b.unknownNames(c)...)
	return done, nil
}

// unknownNames lists the names of which nobody knows yet what they stand for.
func (b *Balancer) unknownNames(c *config.Config) (unknown []string) {
	for _, p := range c.Pools {
		for _, g := range p.Groups {
			if _, known := b.found.Found(keyOf(p.Name, g)); !known {
				unknown = append(unknown, fmt.Sprintf("pool %s: what backend %s stands for: nothing was found under %s yet", p.Name, g.Spec.ID, g.Host))
			}
		}
	}
	return unknown
}

// tryOpen finds out which of the sockets that are to be opened cannot be, and
// where that is not known.
func (p *plan) tryOpen(ctx context.Context) (unknown []string, err error) {
	var errs []error
	for _, w := range p.open {
		blockers := p.inTheWay(w)
		err := l4.Try(ctx, w.listen)
		switch {
		case err == nil:
		case errors.Is(err, l4.ErrUntried):
			unknown = append(unknown, fmt.Sprintf("%s: whether %s can be bound: %v", w.who(), w.listen, err))
		case inUse(err) && len(blockers) > 0:
			unknown = append(unknown, fmt.Sprintf("%s: whether %s can be bound: only once %s is closed, which the reload does first",
				w.who(), w.listen, blockers[0].listen))
		default:
			errs = append(errs, w.refusal(err))
		}
	}
	return slices.Clip(unknown), errors.Join(errs...)
}
