//go:build linux

package subject

import (
	"io"
	"net"
	"strings"
	"testing"
)

// The plain balancer is worth comparing with only if it balances: bytes go both
// ways, an end of stream does too, and backends take turns.
func TestPlainBalances(t *testing.T) {
	t.Parallel()
	var backends []string
	accepted := make(chan string, 10)
	for range 2 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		backends = append(backends, l.Addr().String())
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				accepted <- l.Addr().String()
				go func() {
					defer c.Close()
					text, _ := io.ReadAll(c)
					io.WriteString(c, strings.ToUpper(string(text)))
				}()
			}
		}()
	}
	front, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	go acceptPlain(front, backends)
	turns := map[string]int{}
	for range 4 {
		c, err := net.Dial("tcp4", front.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "hello")
		c.(*net.TCPConn).CloseWrite()
		if got, err := io.ReadAll(c); string(got) != "HELLO" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		turns[<-accepted]++
	}
	if turns[backends[0]] != 2 || turns[backends[1]] != 2 {
		t.Errorf("got turns %v", turns)
	}
}
