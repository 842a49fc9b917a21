package resolve_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOrderOfAddresses(t *testing.T) {
	bubble(t, "a.test=10.1.0.1 10.1.0.2 10.1.0.3", func(t *testing.T, r *rig) {
		r.ask("a.test", 0)
		next := func(answer string) {
			r.answer("a.test=" + answer)
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		next("10.1.0.3 10.1.0.2 10.1.0.1") // nothing worked yet: the resolver's order
		r.mustAnswer("a.test", "10.1.0.3 10.1.0.2 10.1.0.1")

		r.Worked("a.test", addr("10.1.0.2"))
		r.mustAnswer("a.test", "10.1.0.2 10.1.0.3 10.1.0.1")
		next("10.1.0.1 10.1.0.2 10.1.0.3")
		r.mustAnswer("a.test", "10.1.0.2 10.1.0.1 10.1.0.3")

		r.Worked("a.test", addr("10.1.0.1"))
		r.Worked("a.test", addr("10.1.0.1"))
		r.Worked("a.test", addr("10.1.0.9")) // not among them
		r.Worked("b.test", addr("10.1.0.3")) // not known
		r.mustAnswer("a.test", "10.1.0.1 10.1.0.2 10.1.0.3")

		next("10.1.0.3 10.1.0.2") // the one that worked is gone, and comes back
		r.mustAnswer("a.test", "10.1.0.3 10.1.0.2")
		next("10.1.0.3 10.1.0.2 10.1.0.1")
		r.mustAnswer("a.test", "10.1.0.1 10.1.0.3 10.1.0.2")
	})
}

// A slice that was handed out stays as it was.
func TestAnswersAreNotEdited(t *testing.T) {
	bubble(t, "a.test=10.1.0.1 10.1.0.2 10.1.0.3", func(t *testing.T, r *rig) {
		got, _ := r.Lookup(context.Background(), "a.test")
		for _, a := range []string{"10.1.0.3", "10.1.0.2", "10.1.0.1", "10.1.0.2"} {
			r.Worked("a.test", addr(a))
		}
		r.Failed("a.test")
		time.Sleep(time.Minute)
		if s := fmt.Sprint(got); s != "[10.1.0.1 10.1.0.2 10.1.0.3]" {
			t.Errorf("the slice became %s", s)
		}
	})
}

func TestAddressesAreUnmappedAndDistinct(t *testing.T) {
	bubble(t, "a.test=::ffff:10.1.0.1 2001:db8::1 10.1.0.1 10.1.0.2 2001:db8::1 fe80::1%eth0", func(t *testing.T, r *rig) {
		r.ask("a.test", 0)
		r.mustAnswer("a.test", "10.1.0.1 2001:db8::1 10.1.0.2 fe80::1%eth0")
		r.Worked("a.test", addr("::ffff:10.1.0.2"))
		r.mustAnswer("a.test", "10.1.0.2 10.1.0.1 2001:db8::1 fe80::1%eth0")
	})
}

func TestNumberOfAddressesIsBounded(t *testing.T) {
	var list []string
	for i := range 300 {
		list = append(list, fmt.Sprintf("10.1.%d.%d", i/200, i%200))
	}
	bubble(t, "a.test="+strings.Join(list, " "), func(t *testing.T, r *rig) {
		r.ask("a.test", 0)
		r.mustAnswer("a.test", strings.Join(list[:64], " "))
	})
}
