package balancer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A long drain is told of often at first, and not too often later.
func TestProgressOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, over, done := time.Now(), make(chan struct{}), make(chan struct{})
		var told []time.Duration
		go func() {
			defer close(done)
			everyNowAndThen(over, func() { told = append(told, time.Since(began)) })
		}()
		time.Sleep(4 * time.Minute)
		close(over)
		<-done
		if got, want := fmt.Sprint(told), "[5s 15s 35s 1m15s 2m15s 3m15s]"; got != want {
			t.Errorf("told at %s, want %s", got, want)
		}
	})
}
