package balancer

import (
	"errors"
	"testing"
)

// A failed look-up counts in every pool that has a backend of that name.
func TestFailedLookupsCountInTheirPools(t *testing.T) {
	b, _, stop := started(t, frontendText("f", "one")+frontendText("g", "two")+frontendText("h", "three")+
		poolText("one", "none", "db.invalid:1", "127.0.0.1:1")+poolText("two", "none", "db.invalid:2")+poolText("three", "none", "127.0.0.1:2"))
	defer stop()
	for range 3 {
		b.lookupFailed("db.invalid", errors.New("no such host"))
	}
	for i, want := range []int64{3, 3, 0} {
		if st := b.view.Load().pools[i].Status(); st.LookupFailures != want {
			t.Errorf("pool %s: got %d failures, want %d", st.Name, st.LookupFailures, want)
		}
	}
}
