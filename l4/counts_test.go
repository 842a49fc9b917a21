package l4_test

import (
	"testing"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// What the metrics count does not depend on anybody taking records.
func TestEndingsAreCountedWithoutRecords(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{silent: true, specs: specs(l4test.Refuse(t), l4test.Serve(t, l4test.Tag("B")).Addr)})
		const n = 3
		for range n {
			c := r.dial()
			line(t, c)
			c.Close()
		}
		cut := r.dial()
		line(t, cut)
		l4test.Abort(cut)
		eventually(t, "all have ended", func() bool { return r.front.Status().Active == 0 })
		st := r.front.Status()
		if st.EndedBy[session.ClientClosed] != n || st.EndedBy[session.ClientReset] != 1 || st.EndedBy[session.Idle] != 0 {
			t.Errorf("got %v, want %d client_closed and one client_reset", st.EndedBy, n)
		}
		total := int64(0)
		for _, k := range st.Durations.Counts {
			total += k
		}
		if total != st.Total || total != n+1 || st.Durations.Sum <= 0 {
			t.Errorf("%d durations, %v in all, of %d sessions; want %d", total, st.Durations.Sum, st.Total, n+1)
		}
		b := r.pool.Status().Backends
		if st.Redials == 0 || b[0].FailuresBy["refused"] != st.Redials {
			t.Errorf("%d redials and %v failures, want as many", st.Redials, b[0].FailuresBy)
		}
		for i, want := range []int64{b[0].DialFailures, n + 1} {
			dials := int64(0)
			for _, k := range b[i].Dials.Counts {
				dials += k
			}
			if dials != want {
				t.Errorf("backend %d: %d dials are measured, want %d", i, dials, want)
			}
		}
	})
}
