package l4

import (
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// Who takes the records hangs: sessions go on, records beyond the bound are
// dropped and counted, and a shutdown ends once he takes them again.
func TestRecordsThatNobodyTakes(t *testing.T) {
	t.Parallel()
	const beyond = 123
	k := newFaulty(t, 0, nil)
	tr := startTrial(t, k, shape{loops: 1, buffer: 512, set: patient()})
	hangs, resume := make(chan struct{}, recordsMax+beyond), make(chan struct{})
	take := tr.config.Record
	tr.config.Record = func(r session.Record) {
		hangs <- struct{}{}
		<-resume
		take(r)
	}
	tr.front.Use(tr.config)
	go tr.listener.Serve()
	run := func(id uint32) {
		p := &play{id: id, roles: [2]role{{size: 1000, piece: 1000, how: "end"}, {size: 1000, piece: 1000, how: "end"}}}
		tr.run(p)
		if p.saw[session.Client] != (sight{1000, "end"}) {
			t.Errorf("%v", p)
		}
	}
	run(0)
	<-hangs
	// Sessions that are over, but for their records: as many as wait, and more.
	l := tr.driver.loops[0]
	tr.driver.onAll(func(int, *loop) {
		for range recordsMax + beyond {
			tr.front.running.enter()
			l.left = append(l.left, finished{tr.front, &tr.config, session.Record{}})
		}
		l.leftAt = l.now
	})
	tr.until("records are dropped", func() bool { return tr.engine.Dropped() > 0 })
	for id := range uint32(10) {
		run(1 + id)
	}
	tr.until("all that are too many are dropped", func() bool { return tr.engine.Dropped() == beyond+10 })
	over := make(chan int)
	go func() { over <- tr.front.Shutdown(t.Context()) }()
	tr.alive()
	select {
	case <-over:
		t.Error("the shutdown did not wait for the records")
	default:
	}
	close(resume)
	select {
	case cut := <-over:
		if cut != 0 {
			t.Errorf("%d sessions were cut", cut)
		}
	case <-time.After(l4test.Patience):
		t.Fatal("the shutdown waits for ever")
	}
	if tr.records != recordsMax+1 {
		t.Errorf("%d records were taken, want %d", tr.records, recordsMax+1)
	}
	tr.records = int(tr.front.Status().Total) // as close counts
	tr.close()
}
