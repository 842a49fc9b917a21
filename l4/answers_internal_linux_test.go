package l4

import (
	"context"
	"testing"
	"time"

	"sluice/l4/epoll"
	"sluice/l4/l4test"
)

// One loop that hangs is enough for the engine not to answer.
func TestLoopThatHangsDoesNotAnswer(t *testing.T) {
	e, err := startLooping(2, loopConfig{calls: epoll.System(), buffer: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	goOn := make(chan bool)
	e.loops[1].post(func() { <-goOn })
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if e.answers(short) {
		t.Error("the engine answers though a loop hangs")
	}
	close(goOn)
	long, cancel := context.WithTimeout(t.Context(), l4test.Patience)
	defer cancel()
	if !e.answers(long) {
		t.Error("the engine does not answer though its loops do")
	}
}
