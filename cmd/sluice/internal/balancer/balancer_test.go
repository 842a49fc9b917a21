package balancer

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4/l4test"

	"go.uber.org/goleak"
)

// file is a configuration that a test rewrites.
type file struct {
	process string     // further keys of [process]
	mu      sync.Mutex // guards text
	text    string
}

func (f *file) set(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = text
}

func (f *file) load() (*config.Config, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return config.Parse("test", []byte("[process]\ndrain_timeout = \"0s\"\n"+f.process+"[admin]\nlisten = \"127.0.0.1:0\"\n"+f.text))
}

// started starts a balancer that the test stops by the func it gets.
func started(t *testing.T, text string) (b *Balancer, f *file, stop func()) {
	t.Helper()
	return startedAs(t, "", text)
}

// startedAs is started with further keys of [process].
func startedAs(t *testing.T, process, text string) (b *Balancer, f *file, stop func()) {
	t.Helper()
	f = &file{process: process, text: text}
	var log bytes.Buffer
	out := logs.New(&log)
	b, err := Start(Options{Load: f.load, Logs: out, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return b, f, func() {
		b.Stop()
		out.Close(10 * time.Second)
	}
}

func frontendText(name, pool string) string {
	return fmt.Sprintf("[[frontend]]\nname = %q\nlisten = \"127.0.0.1:0\"\npool = %q\n", name, pool)
}

func poolText(name, probe string, backends ...string) string {
	s := fmt.Sprintf("[[pool]]\nname = %q\n[pool.health]\nprobe = %q\n", name, probe)
	for _, address := range backends {
		s += fmt.Sprintf("[[pool.backend]]\naddress = %q\n", address)
	}
	return s
}

// Whatever reloads add and remove, nothing of it is left after the stop.
func TestNothingIsLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	a := l4test.Refuse(t)
	texts := []string{
		frontendText("one", "p") + poolText("p", "tcp", a),
		frontendText("one", "p") + poolText("p", "none", a),
		frontendText("one", "p") + frontendText("two", "q") + poolText("p", "tcp", a) + poolText("q", "tcp", a),
		frontendText("two", "q") + poolText("q", "tcp"),
		frontendText("three", "p") + poolText("p", "tcp", a, "localhost:9"),
	}
	b, f, stop := started(t, texts[0])
	for i := range 20 {
		f.set(texts[(i+1)%len(texts)])
		done, err := b.Reload(t.Context(), "test")
		if err != nil || len(done.Changes) == 0 || done.Generation != int64(i+2) {
			t.Fatalf("reload %d: got %+v, %v", i, done, err)
		}
	}
	stop()
	if _, err := b.Reload(t.Context(), "test"); err != ErrStopping {
		t.Errorf("reload after the stop: got %v, want %v", err, ErrStopping)
	}
	goleak.VerifyNone(t, before)
}

// A start that fails leaves nothing, and names every address it could not bind.
func TestStartFails(t *testing.T) {
	before := goleak.IgnoreCurrent()
	var busy []string
	text := frontendText("free", "p") + poolText("p", "tcp")
	for i := range 2 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		busy = append(busy, ln.Addr().String())
		text += strings.Replace(frontendText(fmt.Sprintf("f%d", i), "p"), "127.0.0.1:0", busy[i], 1)
	}
	f := &file{text: text}
	out := logs.New(&bytes.Buffer{})
	_, err := Start(Options{Load: f.load, Logs: out, Version: "test"})
	out.Close(10 * time.Second)
	for i, at := range busy {
		want := fmt.Sprintf("frontend f%d: listen on %s: bind: address already in use", i, at)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
	goleak.VerifyNone(t, before)
}

// A removed pool that comes back has the counters it had.
func TestPoolComesBack(t *testing.T) {
	a := l4test.Serve(t, l4test.Echo)
	one := frontendText("one", "p") + poolText("p", "none", a.Addr) + poolText("q", "none")
	b, f, stop := started(t, one)
	defer stop()
	reload := func(text string) {
		t.Helper()
		f.set(text)
		if _, err := b.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
	}
	total := func() int64 { return b.view.Load().pools[0].Status().Backends[0].Total }
	c, err := net.Dial("tcp", b.Frontends()[0].Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "x")
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if got := total(); got != 1 {
		t.Fatalf("got %d sessions in total, want 1", got)
	}
	reload(frontendText("one", "q") + poolText("q", "none"))
	reload(one)
	if got := total(); got != 1 {
		t.Errorf("after the pool came back: got %d sessions in total, want 1", got)
	}
}

// An address that was lost because somebody was faster comes back by a reload
// of the same file.
func TestLostAddressIsRegained(t *testing.T) {
	a := l4test.Serve(t, l4test.Echo)
	b, _, stop := started(t, frontendText("one", "p")+poolText("p", "none", a.Addr))
	defer stop()
	b.mu.Lock()
	for at, s := range b.sockets {
		if s.clients != nil {
			s.close()
			delete(b.sockets, at)
		}
	}
	b.mu.Unlock()
	done, err := b.Reload(t.Context(), "test")
	if err != nil || len(done.Changes) != 1 || done.Changes[0] != "address 127.0.0.1:0: regained, by frontend one" {
		t.Errorf("got %+v, %v", done, err)
	}
	if c, err := net.Dial("tcp", b.Frontends()[0].Listen); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}
