package balancer

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4/l4test"
)

// usage is what must not grow.
type usage struct {
	goroutines, descriptors int
	heap                    int64 // after a collection
}

func used(t *testing.T) usage {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalized
	runtime.ReadMemStats(&m)
	return usage{runtime.NumGoroutine(), len(open), int64(m.HeapAlloc)}
}

// discard is a log that keeps nothing.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// B119: 500 reloads leave no goroutine, no descriptor and no memory behind. They
// add and remove frontends, pools and backends, switch probes, the watch and
// the admin side, and each is a plan first; some are refused.
//
// The heap may be 256 KiB larger: half a KB for each reload, where one that kept
// its configuration would leave some 20 KB.
func TestReloadsLeaveNothing(t *testing.T) {
	a := l4test.Serve(t, l4test.Echo)
	head := "[process]\ndrain_timeout = \"0s\"\nwatch = %v\n[admin]\nlisten = \"127.0.0.1:0\"\nprobe_listen = %q\n"
	texts := []string{
		fmt.Sprintf(head, true, "") + frontendText("one", "p") + poolText("p", "tcp", a.Addr, "localhost:9"),
		fmt.Sprintf(head, false, "127.0.0.1:0") + frontendText("one", "p") + poolText("p", "none", a.Addr),
		fmt.Sprintf(head, true, "127.0.0.1:0") + frontendText("one", "p") + frontendText("two", "q") + poolText("p", "tcp", a.Addr) + poolText("q", "tcp", a.Addr),
		fmt.Sprintf(head, false, "") + frontendText("two", "q") + poolText("q", "tcp"),
	}
	busy := texts[0] + "[[frontend]]\nname = \"new\"\nlisten = \"" + a.Addr + "\"\npool = \"p\"\n"
	path := filepath.Join(t.TempDir(), "c.toml")
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save(texts[0])
	out := logs.New(discard{})
	b, err := Start(Options{Load: func() (*config.Config, error) { return config.Load(path) }, File: path, Logs: out, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close(10 * time.Second)
	defer b.Stop()
	round := func(n int) {
		t.Helper()
		for i := range n {
			save(texts[i%len(texts)])
			if _, err := b.Plan(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			if _, err := b.Reload(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
			if i%50 == 0 {
				save(busy)
				if _, err := b.Reload(t.Context(), "test"); err == nil {
					t.Fatal("a reload bound a busy port")
				}
			}
		}
	}
	round(100) // what is made once and kept
	before := settled(t, used(t))
	round(500)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		after := used(t)
		grown := after.goroutines > before.goroutines || after.descriptors > before.descriptors || after.heap > before.heap+256<<10
		if !grown {
			t.Logf("before %+v, after %+v", before, after)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
	}
}

// settled waits until what ends by itself has ended.
func settled(t *testing.T, u usage) usage {
	t.Helper()
	for range 50 {
		time.Sleep(20 * time.Millisecond)
		next := used(t)
		if next.goroutines == u.goroutines && next.descriptors == u.descriptors {
			return next
		}
		u = next
	}
	return u
}
