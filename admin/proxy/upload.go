package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"sluice/pool"
)

// tally is the payload of one request as it moves: the bodies, and all bytes
// of an upgraded connection. Safe for concurrent use.
type tally struct {
	began     time.Time
	toBackend atomic.Int64
	toClient  atomic.Int64
	last      atomic.Int64 // when something moved, since began
	up        atomic.Bool  // the last byte went to the backend
}

// moved counts bytes of one direction, here and for the backend.
func (t *tally) moved(b *pool.Backend, toBackend, toClient int) {
	if toBackend+toClient == 0 {
		return
	}
	t.toBackend.Add(int64(toBackend))
	t.toClient.Add(int64(toClient))
	t.last.Store(int64(time.Since(t.began)))
	t.up.Store(toBackend > 0)
	b.Moved(0, int64(toBackend), int64(toClient))
}

// idle returns how long nothing has moved.
func (t *tally) idle() time.Duration {
	return time.Since(t.began) - time.Duration(t.last.Load())
}

// patience is a timer that runs while the backend has its turn: from when it
// got the connection, or more of the body, until its response header. A client
// that is slow to send its body does not use it up.
type patience struct {
	after time.Duration // 0 is for ever

	mu    sync.Mutex // guards all below
	timer *time.Timer
	over  bool
}

func newPatience(after time.Duration, expired func()) *patience {
	p := &patience{after: after}
	if after > 0 {
		p.timer = time.AfterFunc(after, expired)
		p.timer.Stop()
	}
	return p
}

// run starts the timer anew.
func (p *patience) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil && !p.over {
		p.timer.Reset(p.after)
	}
}

// hold stops the timer until run is called.
func (p *patience) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}

// stop stops the timer for good.
func (p *patience) stop() {
	p.hold()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
}

// errAttemptOver is what a transport gets that reads on after its attempt.
var errAttemptOver = errors.New("the attempt is over")

// upload is the body of a request during one attempt. The transport reads it in
// a goroutine of its own, and closes it whatever happens; the client's body it
// never closes, for the next attempt may need it.
type upload struct {
	body     io.Reader
	patience *patience
	tally    *tally
	backend  *pool.Backend
	touched  atomic.Bool // reading has begun: nothing can be replayed
	ended    atomic.Bool // read to its end
	failed   atomic.Bool // the client did not send what it promised
	closed   atomic.Bool
}

func (u *upload) Read(p []byte) (int, error) {
	if u.closed.Load() {
		return 0, errAttemptOver
	}
	u.touched.Store(true)
	u.patience.hold()
	n, err := u.body.Read(p)
	u.patience.run()
	u.tally.moved(u.backend, n, 0)
	switch {
	case err == io.EOF:
		u.ended.Store(true)
	case err != nil:
		u.failed.Store(true)
	}
	return n, err
}

// Close makes further reads fail.
func (u *upload) Close() error {
	u.closed.Store(true)
	return nil
}
