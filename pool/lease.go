package pool

import "fmt"

// Lease is one session's right to use one backend. Its zero value holds nothing.
// It belongs to one owner and is not safe for concurrent use; it must not be
// copied once filled. Releasing twice is harmless.
type Lease struct {
	_         noCopy
	pool      *Pool
	backend   *Backend
	onTrial   bool // it holds the trial of its backend
	connected bool
}

// noCopy makes vet's copylocks check complain about copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

func (l *Lease) fill(p *Pool, m *Member) {
	l.pool, l.backend, l.onTrial, l.connected = p, m.Backend, m.onTrial, false
}

// moveTo hands over what l holds, if it does, to another lease, which is empty.
func (l *Lease) moveTo(to *Lease) {
	if l.backend == nil {
		return
	}
	to.pool, to.backend, to.onTrial, to.connected = l.pool, l.backend, l.onTrial, l.connected
	l.backend = nil
}

// Backend returns the backend held, or nil.
func (l *Lease) Backend() *Backend { return l.backend }

// Connected says that the dial succeeded: it counts the session, ends a streak
// of failures, and makes a trial a success. Saying it twice is harmless.
func (l *Lease) Connected() {
	b := l.backend
	if b == nil || l.connected {
		return
	}
	l.connected = true
	b.total.Add(1)
	b.succeeded()
	if l.pool.queue.barred.Load() > 0 {
		l.pool.works(b)
	}
	if l.onTrial || b.Health() == Down {
		l.pool.proved(b, l.onTrial)
		l.onTrial = false
	}
}

// Failed says that the dial failed in a way that counts against the backend,
// and releases. reason is one word of design: refused, timeout, reset,
// unreachable. The streak may take the backend out of rotation.
func (l *Lease) Failed(reason string, err error) {
	b, p, onTrial := l.backend, l.pool, l.onTrial
	if b == nil {
		return
	}
	b.failures.add(reason)
	b.streak.Add(1)
	b.events.note(EventDial, failure(reason, err, onTrial))
	l.onTrial = false // p.failed ends the trial
	l.Release()
	p.failed(b, onTrial, reason, err)
}

// failure is the evidence of a dial that failed.
func failure(reason string, err error, onTrial bool) string {
	text := fmt.Sprintf("%s: %s", reason, sourceless(err.Error()))
	if onTrial {
		text = "of its trial session: " + text
	}
	return text
}

// Release gives the slot back.
func (l *Lease) Release() {
	b := l.backend
	if b == nil {
		return
	}
	l.backend = nil
	if l.onTrial {
		b.trial.Store(trialOpen)
		l.onTrial = false
	}
	l.pool.release(b)
}
