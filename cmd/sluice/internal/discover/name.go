package discover

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	lookupTime = 5 * time.Second // of one look-up: resolv.conf's default for one try
	soonest    = time.Second     // between the beginnings of two look-ups of a name
	jitter     = 0.1             // of the interval, either way, so that names do not stay in step
)

// Status is what is known of a name at one moment.
type Status struct {
	Found    []Found   // what it stands for, sorted
	Missing  int       // of these, those that the last good answer lacked
	LeftOut  int       // that were more than a name may stand for
	Rotates  bool      // the answers are parts, in turns: see memory
	Answered time.Time // the last good answer; zero: there was none
	Error    string    // of the last look-up; empty: it was good
	Since    time.Time // of the first of the failures in a row
}

// name looks one name up until its context ends.
//
//	look-up --> waits for the timer, for a suspect, or for another policy --> look-up
type name struct {
	key     Key
	hooks   Hooks
	stop    context.CancelFunc
	first   chan struct{} // closed when the first look-up is over
	due     chan struct{} // holds a token while a look-up is wanted now
	altered chan struct{} // holds a token while the policy is another
	status  atomic.Pointer[Status]

	mu     sync.Mutex // guards policy
	policy Policy

	memory   memory // of run alone, as what follows
	failures int    // in a row
}

func (w *name) use(p Policy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Source != w.policy.Source {
		signal(w.due)
	}
	w.policy = p
	signal(w.altered)
}

func (w *name) using() Policy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.policy
}

// standsFor reports whether the address is one of the name's.
func (w *name) standsFor(a netip.Addr) bool {
	s := w.status.Load()
	if s == nil {
		return false
	}
	for _, f := range s.Found {
		if f.Addr == a {
			return true
		}
	}
	return false
}

func (w *name) run(ctx context.Context) {
	for {
		began := time.Now()
		w.look(ctx)
		if ctx.Err() != nil || !w.pause(ctx, began) {
			return
		}
	}
}

// look looks the name up once and tells what came of it.
func (w *name) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	answer, err := w.using().Source.ask(limited, w.key, w.memory.list())
	if ctx.Err() != nil {
		return
	}
	w.learn(answer, err)
	if w.failures == 0 {
		w.hooks.Answered(w.key)
	} else {
		w.hooks.Failed(w.key, err)
	}
}

// learn takes in the result of a look-up.
func (w *name) learn(answer []Found, err error) {
	now := time.Now()
	var s Status
	was := w.status.Load()
	if was != nil {
		s = *was
	}
	if err == nil {
		w.memory.take(answer, now)
		w.failures = 0
		s = Status{Answered: now, Rotates: w.memory.rotating(now)}
		s.Found, s.Missing, s.LeftOut = w.memory.standing()
	} else {
		if w.failures++; w.failures == 1 {
			s.Since = now
		}
		s.Error = err.Error()
	}
	w.status.Store(&s)
	if was == nil {
		close(w.first)
	}
}

// pause waits until the next look-up is due; false: ctx ended.
func (w *name) pause(ctx context.Context, began time.Time) bool {
	scatter := 1 + jitter*(2*rand.Float64()-1)
	timer := time.NewTimer(time.Until(began.Add(w.wait(scatter))))
	defer timer.Stop()
	suspects := w.due
	for {
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case <-suspects:
			suspects = nil // one is enough
			timer.Reset(time.Until(began.Add(min(soonest, w.wait(scatter)))))
		case <-w.altered:
			if suspects != nil {
				timer.Reset(time.Until(began.Add(w.wait(scatter))))
			}
		}
	}
}

// wait is the time between two look-ups. It is short while an address is missing,
// to find out whether it is gone, and, at first, while nothing is known.
func (w *name) wait(scatter float64) time.Duration {
	every := time.Duration(float64(w.using().Every) * scatter)
	switch {
	case w.failures == 0 && w.memory.doubts(time.Now()):
		return min(every, soonest)
	case w.failures > 0 && w.memory.empty():
		return min(every, soonest<<min(w.failures-1, 16))
	}
	return every
}
