package balancer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4/l4test"

	"go.uber.org/goleak"
)

// A file system that does not answer costs one reload, not those after it.
func TestReloadGivesUpAFileThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan bool)
		b := &Balancer{turn: make(chan struct{}, 1), stopping: true, options: Options{
			Load: func() (*config.Config, error) { <-hangs; return &config.Config{}, nil },
			Logs: logs.New(&bytes.Buffer{}),
		}}
		b.view.Store(&view{config: &config.Config{}})
		b.named.Store(new([]string))
		began, first := time.Now(), make(chan error)
		go func() {
			_, err := b.Reload(t.Context(), "first")
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Reload(ctx, "second"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second, with a second to wait, got %v", err)
		}
		if err := <-first; !errors.Is(err, ErrStopping) || time.Since(began) != loadTime {
			t.Errorf("the first got %v after %v", err, time.Since(began))
		}
		close(hangs)
		if _, err := b.Reload(t.Context(), "third"); !errors.Is(err, ErrStopping) || time.Since(began) != loadTime {
			t.Errorf("the third, of a file that answers, got %v after %v", err, time.Since(began))
		}
		b.options.Logs.Close(time.Second)
	})
}

// A reload that hangs in reading the file does not keep a stop waiting, and
// changes nothing once it goes on.
func TestStopDoesNotWaitForAFile(t *testing.T) {
	before := goleak.IgnoreCurrent()
	f := &file{text: frontendText("one", "p") + poolText("p", "none")}
	reading, goOn := make(chan bool), make(chan bool)
	load := func() (*config.Config, error) {
		reading <- true
		<-goOn
		return f.load()
	}
	out := logs.New(&bytes.Buffer{})
	go func() {
		<-reading
		goOn <- true
	}()
	b, err := Start(Options{Load: load, Logs: out, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	f.set(frontendText("two", "p") + poolText("p", "none"))
	done := make(chan error)
	go func() {
		_, err := b.Reload(t.Context(), "test")
		done <- err
	}()
	<-reading
	b.Stop()
	close(goOn)
	if err := <-done; !errors.Is(err, ErrStopping) {
		t.Errorf("the reload ended with %v, want %v", err, ErrStopping)
	}
	if list := b.Frontends(); len(list) != 1 || list[0].Name != "one" {
		t.Errorf("got frontends %+v, want those before", list)
	}
	out.Close(10 * time.Second)
	goleak.VerifyNone(t, before)
}

// Whatever a stop and reloads meet in, no listener and no goroutine is left, and
// every reload either is whole or says that it came too late.
func TestStopAmidReloads(t *testing.T) {
	before := goleak.IgnoreCurrent()
	for round := range 20 {
		text := func(i int) string {
			s := strings.Replace(frontendText(fmt.Sprint("f", i), "p"), "127.0.0.1:0", fmt.Sprintf("unix:%s/%d", t.TempDir(), i), 1)
			return s + poolText("p", []string{"none", "tcp"}[i%2], "127.0.0.1:1")
		}
		b, f, stop := started(t, text(0))
		var all sync.WaitGroup
		reached := make(chan bool, 1)
		for n := range 2 {
			all.Go(func() {
				for i := 1; ; i++ {
					f.set(text(i + n))
					done, err := b.Reload(t.Context(), "test")
					if errors.Is(err, ErrStopping) {
						return
					}
					if err != nil || done.Generation < 1 {
						t.Errorf("got %+v, %v", done, err)
						return
					}
					if i > round%3 {
						select {
						case reached <- true:
						default:
						}
					}
				}
			})
		}
		<-reached
		all.Go(stop)
		all.Go(b.Stop)
		all.Wait()
		for _, s := range b.sockets {
			network, address := networkOf(s.addr())
			if c, err := net.Dial(network, address); err == nil {
				c.Close()
				t.Errorf("%s still listens after the stop", s.addr())
			}
		}
	}
	goleak.VerifyNone(t, before)
}

func networkOf(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// A start that fails half way has closed what it had opened.
func TestFailedStartClosesWhatItOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	f := &file{text: strings.Replace(frontendText("free", "p"), "127.0.0.1:0", "unix:"+path, 1) +
		strings.Replace(frontendText("taken", "p"), "127.0.0.1:0", busy.Addr().String(), 1) + poolText("p", "tcp")}
	out := logs.New(&bytes.Buffer{})
	defer out.Close(10 * time.Second)
	if b, err := Start(Options{Load: f.load, Logs: out, Version: "test"}); err == nil || b != nil {
		t.Fatalf("got %v, %v, want an error alone", b, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of the other frontend: got %v, want that it is gone", err)
	}
}

// The API answers until nothing else is left.
func TestAdminListenerClosesLast(t *testing.T) {
	a := l4test.Serve(t, l4test.Echo)
	f := &file{text: frontendText("one", "p") + poolText("p", "none", a.Addr)}
	load := func() (*config.Config, error) {
		c, err := f.load()
		if err == nil {
			c.Process.DrainTimeout = time.Hour
		}
		return c, err
	}
	out := logs.New(&bytes.Buffer{})
	b, err := Start(Options{Load: load, Logs: out, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	session, err := net.Dial("tcp", b.Frontends()[0].Listen)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(session, "x")
	if _, err := session.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan bool)
	go func() {
		defer close(stopped)
		b.Stop()
	}()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string) (int, error) {
		r, err := client.Get("http://" + b.AdminAddr() + path)
		if err != nil {
			return 0, err
		}
		return r.StatusCode, r.Body.Close()
	}
	for status := 0; status != http.StatusServiceUnavailable; {
		if status, err = ask("/readyz"); err != nil {
			t.Fatal(err)
		}
	}
	if status, err := ask("/healthz"); status != 200 {
		t.Errorf("healthz during the drain: got %d, %v, want 200", status, err)
	}
	session.Close()
	<-stopped
	if _, err := ask("/healthz"); err == nil {
		t.Error("the admin side answers after the stop")
	}
	out.Close(10 * time.Second)
}
