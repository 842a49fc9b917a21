package l4_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// B002: the backend ends first, and gets all that comes after.
func TestBackendEndsFirst(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		for range 20 {
			e := r.ends()
			e[session.Backend].CloseWrite()
			e[session.Backend].read()
			e[session.Client].read()
			e[session.Client].mustSee(0, "end")
			e[session.Client].send(0, 1<<20)
			e[session.Backend].wait(1 << 20)
			e[session.Client].Close()
			e[session.Backend].mustSee(1<<20, "end")
			r.mustEnd(session.BackendClosed, "--", 1<<20, 0)
			e[session.Backend].Close()
		}
	})
}

// B004: 64 MiB behind the client's end, taken in fits and starts.
func TestLongDownloadBehindTheClientsEnd(t *testing.T) {
	const size = 64 << 20
	whole := sha256.New()
	io.Copy(whole, l4test.Pattern(size))
	runs := 5
	if testing.Short() {
		runs = 1
	}
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Source(size))
		r := start(t, setup{specs: specs(b.Addr)})
		for range runs {
			c := r.dial()
			c.Write([]byte("?"))
			c.CloseWrite()
			got := sha256.New()
			n, err := io.Copy(got, &fitful{c: c})
			if n != size || err != nil || string(got.Sum(nil)) != string(whole.Sum(nil)) {
				t.Fatalf("got %d of %d bytes, then %v", n, size, err)
			}
			c.Close()
			r.mustEnd(session.ClientClosed, "--", 1, size)
		}
	})
}

// fitful pauses now and then for up to 5 ms.
type fitful struct{ c io.Reader }

func (f *fitful) Read(b []byte) (int, error) {
	if rand.IntN(200) == 0 {
		<-time.After(rand.N(5 * time.Millisecond))
	}
	return f.c.Read(b[:1+rand.IntN(len(b))])
}

func TestUnequalStreamsBothWays(t *testing.T) {
	sizes := []int64{0, 1, 1<<20 - 1, 1<<20 + 1, 9<<20 + 5}
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		for i, up := range sizes {
			down := sizes[len(sizes)-1-i] + 3
			e := r.ends()
			for side, n := range [2]int64{up, down} {
				e[side].read()
				go func() {
					e[side].send(0, n)
					e[side].CloseWrite()
				}()
			}
			e[session.Client].mustSee(down, "end")
			e[session.Backend].mustSee(up, "end")
			if rec := r.record(); rec.ToBackend != up || rec.ToClient != down || rec.Code != "--" {
				t.Errorf("record %+v, want %d and %d bytes", rec, up, down)
			}
			e[session.Client].Close()
			e[session.Backend].Close()
		}
	})
}

// Bursts around the ends of windows: nothing stays in a pipe.
func TestBurstsOverManyWindows(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.HalfCloseTimeout = 400 * time.Millisecond // windows of 25 ms
		set.IdleTimeout = 0
		r := start(t, setup{set: set})
		e := r.ends()
		e[session.Client].read()
		e[session.Backend].read()
		total := [2]int64{}
		for range 60 {
			for side := range e {
				n := rand.Int64N(100_000)
				go e[side].send(total[side], n)
				total[side] += n
				e[side^1].wait(total[side])
			}
			<-time.After(rand.N(75 * time.Millisecond))
		}
		e[session.Client].CloseWrite()
		e[session.Backend].mustSee(total[session.Client], "end")
		e[session.Backend].CloseWrite()
		e[session.Client].mustSee(total[session.Backend], "end")
		r.mustEnd(session.ClientClosed, "--", total[session.Client], total[session.Backend])
	})
}

// B157: nothing waits for the client's first byte.
func TestServerSpeaksFirst(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		c := r.dial()
		began := time.Now()
		if got := line(t, c); got != "A" {
			t.Errorf("got %q", got)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the greeting took %v", took)
		}
	})
}

// B164: a client over IPv4 of a dual-stack socket is an IPv4 client.
func TestMappedClientIsUnmapped(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.Tag("A"))
		r := start(t, setup{listen: "[::]:0", specs: specs(b.Addr)})
		_, port, _ := net.SplitHostPort(r.addr)
		r.addr = "127.0.0.1:" + port
		c := r.dial()
		line(t, c)
		c.Close()
		if rec := r.record(); !rec.Client.Addr().Is4() || rec.Client.String() != c.LocalAddr().String() {
			t.Errorf("the record says client %v, want %v", rec.Client, c.LocalAddr())
		}
	})
}

func TestUnixSocketsOnBothSides(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		dir := t.TempDir()
		ln, err := net.Listen("unix", filepath.Join(dir, "b"))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		path := filepath.Join(dir, "f")
		r := start(t, setup{listen: "unix:" + path, specs: specs("unix:" + filepath.Join(dir, "b"))})
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket file: %v, %v", info.Mode(), err)
		}
		for _, n := range [][2]int64{{0, 0}, {10, 12}, {5<<20 + 1, 3<<20 + 2}} {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			b, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			go io.Copy(c, l4test.PatternAt(0, n[0]))
			go func() {
				io.Copy(b, l4test.PatternAt(777, n[1]))
				b.(*net.UnixConn).CloseWrite()
			}()
			down, up := &l4test.Verify{At: 777}, &l4test.Verify{}
			if _, err := io.Copy(down, c); err != nil || down.N != n[1] {
				t.Errorf("the client got %d of %d bytes, then %v", down.N, n[1], err)
			}
			io.CopyN(up, b, n[0])
			c.Close()
			if _, err := io.Copy(up, b); err != nil || up.N != n[0] {
				t.Errorf("the backend got %d of %d bytes, then %v", up.N, n[0], err)
			}
			b.Close()
			rec := r.mustEnd(session.BackendClosed, "--", n[0], n[1])
			if rec.Client.IsValid() || rec.Address != "unix:"+filepath.Join(dir, "b") {
				t.Errorf("record %+v", rec)
			}
		}
	})
}

func TestUnixBackendMissingOrFull(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		dir := t.TempDir()
		set := defaults()
		set.ConnectTimeout, set.Attempts = 100*time.Millisecond, 2
		r := start(t, setup{set: set, specs: specs("unix:"+dir+"/none", "unix:"+l4test.HoleUnix(t, dir+"/full"))})
		if how := r.refused(""); how != "reset" {
			t.Errorf("the client saw %v, want a reset", how)
		}
		rec := r.mustEnd(session.ConnectFailed, "sC", 0, 0)
		if got := fmt.Sprint(words(rec)); got != "[A:refused B:timeout]" {
			t.Errorf("attempts %s", got)
		}
		for _, b := range r.pool.Status().Backends {
			if b.DialFailures != 1 {
				t.Errorf("backend %s has %d failures, want 1", b.ID, b.DialFailures)
			}
		}
	})
}

func TestStaleSocketFiles(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		dir, e := t.TempDir(), startEngine(t, engineOf(t))
		if _, err := e.Listen(t.Context(), "unix:"+l4test.HoleUnix(t, dir+"/full"), 0o600); err == nil {
			t.Error("took the file of a live server whose queue is full")
		}
		os.WriteFile(dir+"/file", []byte("x"), 0o600)
		if _, err := e.Listen(t.Context(), "unix:"+dir+"/file", 0o600); err == nil {
			t.Error("took a file that is no socket")
		}
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/dead", Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		ln, err := e.Listen(t.Context(), "unix:"+dir+"/dead", 0o600)
		if err != nil {
			t.Fatalf("a file that a dead server left: %v", err)
		}
		ln.Close()
		if _, err := os.Lstat(dir + "/dead"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file of a closed listener: %v, want that it is gone", err)
		}
	})
}

// words lists the attempts of a session as "backend:error".
func words(rec session.Record) (list []string) {
	for _, a := range rec.Attempts {
		list = append(list, a.Backend+":"+a.Error)
	}
	return list
}
