package pool_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/pool"
)

// Whatever probes find, and operators, files and dials do: between two changes no
// two backends get a session, and who was the one stays it as long as it claims it.
func TestSingleIsOneWhateverHappens(t *testing.T) {
	for _, s := range everyStrategy(t) {
		for seed := range seedsOf(s, 12) {
			synctest.Test(t, func(t *testing.T) {
				o := newReign(t, s, seed)
				for range 250 {
					o.step()
					if o.check(); t.Failed() {
						return
					}
				}
			})
		}
	}
}

// reign is one run: a pool with Policy.Single, and who is the one of it.
type reign struct {
	t    *testing.T
	p    *pool.Pool
	s    pool.Strategy
	rng  *rand.Rand
	seed uint64
	pol  pool.Policy

	crown   string    // id and address of the one; "" for none
	claimed bool      // it was found fit by a probe
	waiting []*waiter // held
}

func newReign(t *testing.T, s pool.Strategy, seed uint64) *reign {
	o := &reign{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 11)), seed: seed}
	o.pol = pool.Policy{
		Single: true, Probed: true, Init: pool.Init(seed % 3), MaxFailures: 1,
		BackupMin: 1 + int(seed%2), QueueMax: 8, QueueFor: time.Hour, HoldFor: time.Hour,
	}
	if seed%4 > 1 {
		o.pol.Zone = "x"
	}
	o.p = newPool(t, o.file())
	return o
}

// file is a file with some of the backends, in any order.
func (o *reign) file() pool.Config {
	texts := []string{"a@x", "b@y", "c/1@x", "d/2"}
	o.rng.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	c := pool.Config{Strategy: o.s, Policy: o.pol}
	for _, text := range texts[:1+o.rng.IntN(4)] {
		s := tiered(text)[0]
		if o.rng.IntN(8) == 0 {
			s.Address = s.ID + ":2"
		}
		c.Backends = append(c.Backends, s)
	}
	return c
}

func (o *reign) step() {
	id := string("abcd"[o.rng.IntN(4)])
	weight, admin := o.rng.IntN(3), pool.Admin(o.rng.IntN(3))
	switch o.rng.IntN(16) {
	case 0:
		o.p.Apply(o.file())
	case 1:
		o.p.Add(pool.Spec{ID: id, Address: id + ":1", Weight: 1})
	case 2:
		o.p.Remove(id)
	case 3:
		o.p.Patch(id, pool.Patch{Weight: &weight})
	case 4:
		o.p.Patch(id, pool.Patch{Admin: &admin})
	case 5:
		o.wait()
	case 6:
		time.Sleep(time.Duration(o.rng.IntN(8)) * time.Second) // holds end
		synctest.Wait()
	case 7:
		o.fail()
	default:
		o.probe()
	}
}

// probe finds some backend up or down, and asks for its ejection.
func (o *reign) probe() {
	bs := o.p.Probed()
	if len(bs) == 0 {
		return
	}
	b := bs[o.rng.IntN(len(bs))]
	o.p.SetHealth(b, []pool.Health{pool.Up, pool.Up, pool.Down}[o.rng.IntN(3)], "probe")
	if o.p.Eject(b, pool.Ejection{For: time.Second, Most: time.Second, Budget: 100}) {
		o.t.Fatalf("seed %d: %s was ejected", o.seed, b.ID())
	}
}

// fail has a dial to the one fail.
func (o *reign) fail() {
	var l pool.Lease
	if o.p.Acquire(&l, pool.Query{}) == nil {
		l.Failed("refused", errDial)
		l.Release()
	}
}

// wait has somebody wait, if there is no backend.
func (o *reign) wait() {
	if w := join(o.p); w.place != nil {
		o.waiting = append(o.waiting, w)
	} else {
		w.lease.Release()
	}
}

// check compares who gets sessions with who has to.
func (o *reign) check() {
	o.expect()
	id, _, _ := strings.Cut(o.crown, " ")
	for _, w := range o.waiting {
		if got := w.has(); got != id && !(id == "" && got == pool.ErrWaiting.Error()) {
			o.t.Fatalf("seed %d: who waited got %q, and the one is %q", o.seed, got, id)
		}
	}
	if id != "" {
		release(o.waiting)
		o.waiting = nil
	}
	if got := reached(o.p); got != id {
		o.t.Fatalf("seed %d: %q get sessions, and the one is %q: %+v", o.seed, got, o.crown, o.p.Status().Backends)
	}
	st := o.p.Status()
	if claims, _, _ := claimsOf(st); len(claims) > 1 != (len(st.Conflict) > 0) {
		o.t.Fatalf("seed %d: %v claim it, and the conflict is of %v", o.seed, claims, st.Conflict)
	}
}

// expect finds who is to be the one now.
func (o *reign) expect() {
	claims, ready, unknown := claimsOf(o.p.Status())
	switch {
	case o.claimed && slices.Contains(claims, o.crown):
	case len(claims) == 1 && !unknown:
		o.crown, o.claimed = claims[0], true
	case len(claims) == 0 && len(ready) == 1 && o.usable(ready[0]):
		o.crown, o.claimed = ready[0], false
	default:
		o.crown, o.claimed = "", false
	}
}

// usable reports whether a backend that no probe found fit gets sessions.
func (o *reign) usable(who string) bool {
	for _, b := range o.p.Status().Backends {
		if name(b) == who {
			return b.State == "up"
		}
	}
	return false
}

// claimsOf returns those found fit by a probe, all that an operator lets sessions in
// to, and whether some of these were not probed yet.
func claimsOf(st pool.Status) (claims, ready []string, unknown bool) {
	for _, b := range st.Backends {
		if b.Weight == 0 || b.State != "up" && b.State != "down" {
			continue
		}
		ready = append(ready, name(b))
		unknown = unknown || b.Health == "unknown"
		if b.State == "up" && b.Health == "up" {
			claims = append(claims, name(b))
		}
	}
	return claims, ready, unknown
}

func name(b pool.BackendStatus) string { return fmt.Sprintf("%s %s", b.ID, b.Address) }
