package mysql

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/pool/health"
)

// A server writes every login that it denies into its log, and may lock the account
// after some of them. One that we break off, since its certificate is not good or
// it has none, it counts against our host. Neither gets better by asking again, so
// that is done more and more seldom, but for the first few times, which make the
// verdict. All bounds are chosen. The longest pause after a broken one is so that
// the default of max_connect_errors, 100, lasts for a day.
const (
	unpaused      = 3 // refusals in a row, all probes asking
	firstPause    = 2 * time.Second
	longestDenied = time.Minute
	longestBroken = 15 * time.Minute
)

// refused is a login that should not be tried again at once.
type refused struct {
	text    string
	longest time.Duration // pause until the next; 0 means none is called for
}

func (r *refused) Error() string { return r.text }

// refusals are the logins of each target that were refused in a row, by the server
// or by us. Its zero value is ready for use. Safe for concurrent use.
type refusals struct {
	mu sync.Mutex // guards of
	of map[health.Target]refusal
}

type refusal struct {
	err   error
	count int
	pause time.Duration
	until time.Time // no login before
}

// recall returns what the server of t has said, if it is not to be asked now.
func (r *refusals) recall(t health.Target, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.of[t]
	if !ok || !now.Before(last.until) {
		return nil
	}
	return fmt.Errorf("%w (not asked again before %s)", last.err, last.until.Format(time.TimeOnly))
}

// note takes the result of a login.
func (r *refusals) note(t health.Target, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var why *refused
	switch {
	case err == nil:
		delete(r.of, t)
	case errors.As(err, &why) && why.longest > 0:
		r.forget(now)
		r.of[t] = r.of[t].and(why, now)
	}
}

// and is one refusal more.
func (f refusal) and(why *refused, now time.Time) refusal {
	f.err, f.until = why, now
	if f.count++; f.count >= unpaused {
		f.pause = min(max(2*f.pause, firstPause), why.longest)
		f.until = now.Add(f.pause)
	}
	return f
}

// forget drops targets that nobody probes any more.
func (r *refusals) forget(now time.Time) {
	if r.of == nil {
		r.of = map[health.Target]refusal{}
	}
	for t, f := range r.of {
		if now.Sub(f.until) > longestBroken {
			delete(r.of, t)
		}
	}
}
