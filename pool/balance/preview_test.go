package balance_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sluice/pool"
	"sluice/pool/balance"
)

// What Preview says, Pick does, whatever the weights and however many are full.
func TestPickFollowsItsPreview(t *testing.T) {
	t.Parallel()
	for _, name := range balance.Names() {
		for _, ties := range []string{"first", "rotate"} {
			t.Run(name+"/"+ties, func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(1, 2))
				s, err := balance.ByName(name, ties)
				if err != nil {
					t.Fatal(err)
				}
				var c pool.Config
				c.Strategy = s
				for i := range 7 {
					id := fmt.Sprint("b", i)
					c.Backends = append(c.Backends, pool.Spec{ID: id, Address: id + ":1", Weight: 1 + rnd.IntN(9), MaxSessions: 1 + rnd.IntN(6)})
				}
				p := pool.New("p", c, pool.Hooks{})
				var held []*pool.Lease
				for range 500 {
					if len(held) > 0 && rnd.IntN(3) == 0 {
						i := rnd.IntN(len(held))
						held[i].Release()
						held[i] = held[len(held)-1]
						held = held[:len(held)-1]
					}
					want, sure := p.Preview(pool.Query{})
					l := new(pool.Lease)
					err := p.Acquire(l, pool.Query{})
					switch {
					case err != nil && want != nil:
						t.Fatalf("got %v, want %s", err, want.ID())
					case err != nil:
						continue
					case want == nil || sure && l.Backend() != want:
						t.Fatalf("got %s, want %v", l.Backend().ID(), want)
					}
					held = append(held, l)
				}
			})
		}
	}
}
