//go:build unix

package l4_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"sluice/l4/l4test"
)

// handedOver is a listening socket as another process would hand it over.
func handedOver(t *testing.T, network, address string) net.Listener {
	t.Helper()
	first, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	if u, ok := first.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false)
	}
	defer first.Close()
	raw, err := first.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	raw.Control(func(old uintptr) { fd, err = syscall.Dup(int(old)) })
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "handed over")
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// A socket that somebody else has bound serves like one of our own, and its file
// stays.
func TestAdoptedListener(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		path := filepath.Join(t.TempDir(), "s")
		for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", path}} {
			ln, err := r.engine.Adopt(handedOver(t, at[0], at[1]))
			if err != nil {
				t.Fatal(err)
			}
			ln.Assign(r.front)
			go ln.Serve()
			address := ln.Addr()
			if at[0] == "unix" {
				address = path
			}
			c, err := net.Dial(at[0], address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.SetDeadline(time.Now().Add(l4test.Patience))
			if got := line(t, c); got != "A" {
				t.Errorf("got %q by %s", got, at[0])
			}
			ln.Close()
			if c, err := net.Dial(at[0], address); err == nil {
				c.Close()
				t.Errorf("%s still accepts", address)
			}
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the file of a socket that is not ours: %v", err)
		}
	})
}

func TestEngineAnswers(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{})
		ctx, cancel := context.WithTimeout(t.Context(), l4test.Patience)
		defer cancel()
		if !r.engine.Answers(ctx) {
			t.Error("an engine that has nothing to do does not answer")
		}
	})
}
