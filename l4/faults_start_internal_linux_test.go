package l4

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// An engine that lacks descriptors for its last loop says so, and leaves nothing
// of the others.
func TestStartWithoutDescriptorsForAllLoops(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"epoll_create1", "eventfd2", "epoll_add"} {
		for nth := 1; nth <= 3; nth++ {
			k := newFaulty(t, 0, func(at string, n int, _ *rand.Rand) fate {
				if at == call && n == nth {
					return fate{errno: syscall.EMFILE}
				}
				return fate{}
			})
			done := make(chan error, 1)
			go func() {
				_, err := startLooping(3, loopConfig{calls: k.calls(), buffer: 64})
				done <- err
			}()
			select {
			case err := <-done:
				if !errors.Is(err, syscall.EMFILE) {
					t.Errorf("%s %d: got %v, want EMFILE", call, nth, err)
				}
			case <-time.After(l4test.Patience):
				t.Fatalf("%s %d: the start waits for ever", call, nth)
			}
			k.over()
		}
	}
}
