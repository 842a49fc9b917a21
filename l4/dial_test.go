package l4_test

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

// B051: the client resets while backends are dialed.
func TestClientResetsWhileDialing(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		c := l4test.Serve(t, l4test.Tag("C"))
		r := start(t, setup{specs: specs(l4test.Hole(t), l4test.Hole(t), c.Addr)})
		for _, hello := range []string{"", "hello"} {
			conn := r.dial()
			io.WriteString(conn, hello)
			eventually(t, "it is dialing", func() bool { return r.pool.Status().Backends[0].Active+r.pool.Status().Backends[1].Active == 1 })
			<-time.After(100 * time.Millisecond) // the recipe's; a dial takes two seconds
			began := time.Now()
			l4test.Abort(conn)
			rec := r.mustEnd(session.ClientLeft, "CC", 0, 0)
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
			if n := len(rec.Attempts); n != 1 || rec.Attempts[0].Error != "canceled" {
				t.Errorf("attempts %v", words(rec))
			}
		}
		if c.Total() != 0 {
			t.Error("a backend was dialed for a client that had left")
		}
		for _, b := range r.pool.Status().Backends {
			if b.DialFailures != 0 {
				t.Errorf("backend %s has %d failures", b.ID, b.DialFailures)
			}
		}
	})
}

// A client's end while dialing is a half-close: its bytes and its end arrive.
func TestClientEndsWhileDialing(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout = 300 * time.Millisecond
		r := start(t, setup{set: set, specs: specs(l4test.Hole(t), l4test.Serve(t, l4test.ReadAllThenReply).Addr)})
		c := r.dial()
		io.WriteString(c, "early")
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || string(got) != "R:early" {
			t.Errorf("got %q, %v", got, err)
		}
		r.mustEnd(session.ClientClosed, "--", 5, 7)
	})
}

// So is the close of a unix client: it shows as a hang-up, and its bytes count.
func TestUnixClientClosesWhileDialing(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		set := defaults()
		set.ConnectTimeout = 300 * time.Millisecond
		got := make(chan string, 1)
		b := l4test.Serve(t, func(c *net.TCPConn) {
			data, err := io.ReadAll(c)
			got <- fmt.Sprint(string(data), " ", err)
		})
		path := t.TempDir() + "/f"
		r := start(t, setup{set: set, listen: "unix:" + path, specs: specs(l4test.Hole(t), b.Addr)})
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "early")
		c.Close()
		r.mustEnd(session.ClientClosed, "--", 5, 0)
		if got := <-got; got != "early <nil>" {
			t.Errorf("the backend got %q", got)
		}
	})
}

// An order while dialing ends the session at once, and counts against nobody.
func TestOrderWhileDialing(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Hole(t))})
		c := r.dial()
		eventually(t, "it is dialing", func() bool { return r.front.Status().Active == 1 })
		began := time.Now()
		if n := r.front.Shutdown(canceled()); n != 1 || time.Since(began) > time.Second {
			t.Errorf("cut %d after %v", n, time.Since(began))
		}
		if _, err := io.ReadAll(c); ending(err) != "reset" {
			t.Errorf("the client saw %v, want a reset", err)
		}
		r.mustEnd(session.Shutdown, "KD", 0, 0)
		if n := r.pool.Status().Backends[0].DialFailures; n != 0 {
			t.Errorf("%d failures", n)
		}
	})
}
