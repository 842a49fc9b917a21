//go:build unix

package l4_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sluice/l4"
)

// Try tells what listening would, without listening.
func TestTry(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().String()
	_, port, _ := net.SplitHostPort(taken)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	served, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer served.Close()
	if err := os.WriteFile(filepath.Join(dir, "f"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		address string
		want    error
	}{
		{taken, syscall.EADDRINUSE},
		{":" + port, syscall.EADDRINUSE},
		{"0.0.0.0:" + port, syscall.EADDRINUSE},
		{"192.0.2.1:80", syscall.EADDRNOTAVAIL}, // of nobody: RFC 5737
		{"127.0.0.1:0", nil},
		{":0", nil},
		{"localhost:0", nil},
		{"unix:" + socket, syscall.EADDRINUSE},
		{"unix:" + filepath.Join(dir, "f"), syscall.EADDRINUSE},
		{"unix:" + filepath.Join(dir, "new"), l4.ErrUntried},
		{"unix:" + filepath.Join(dir, "none", "new"), os.ErrNotExist},
	} {
		if err := l4.Try(t.Context(), c.address); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", strings.ReplaceAll(c.address, dir, ""), err, c.want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); err == nil {
		t.Error("a try made a socket file")
	}
	if c, err := net.Dial("tcp", taken); err != nil {
		t.Errorf("a try disturbed who listens: %v", err)
	} else {
		c.Close()
	}
}

// What was tried can be listened on at once.
func TestTryKeepsNothing(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := free.Addr().String()
	free.Close()
	for range 20 {
		if err := l4.Try(t.Context(), at); err != nil {
			t.Skip("SKIPPED: somebody else took the port") // of 20,000 or more
		}
		ln, err := net.Listen("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		ln.Close()
	}
}
