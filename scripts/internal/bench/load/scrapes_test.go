//go:build linux

package load

import (
	"bufio"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// page answers each connection to a socket with the same text.
func page(t *testing.T, text string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "admin.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			bufio.NewReader(c).ReadString('\n')
			io.WriteString(c, text)
			c.Close()
		}
	}()
	return socket
}

func TestScrapes(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"HTTP/1.0 200 OK\r\n\r\nsluice_build_info 1\n": true,
		"HTTP/1.0 503 Busy\r\n\r\nsluice_build_info":   false,
		"HTTP/1.0 200 OK\r\n\r\nhello":                 false,
	} {
		l, err := Scrapes{Socket: page(t, text), Every: time.Millisecond}.Start()
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); good && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if n, _ := l.Units(); n >= 3 {
				break
			}
		}
		n, _ := l.Units()
		if _, err := l.Stop(); (err == nil) != good || good && n < 3 || !good && n > 0 {
			t.Errorf("%q: got %d scrapes and %v", text, n, err)
		}
	}
}
