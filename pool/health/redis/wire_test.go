package redis

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"sluice/pool/health"
)

// A server that is about to say much, or says it, costs no memory and ends nobody
// but its probe.
func TestLengthsThatNoAnswerHas(t *testing.T) {
	const most = "9223372036854775807\r\n"
	for name, c := range map[string]struct{ said, want string }{
		"a text as long as can be":   {"$" + most, "a length that no answer has"},
		"an error as long as can be": {"!" + most, "a length that no answer has"},
		"a text with a type":         {"=" + most, "a length that no answer has"},
		"a text of a gigabyte":       {"$1073741824\r\n", "a length that no answer has"},
		"a map":                      {"%1000000000\r\n", "a length that no answer has"},
		"a list":                     {"*100000000\r\n", "a length that no answer has"},
		"a push":                     {">100000000\r\n", "a length that no answer has"},
		"an attribute":               {"|100000000\r\n", "a length that no answer has"},
		"no number":                  {"$" + strings.Repeat("9", 100) + "\r\n", "a length that no answer has"},
		"lists in lists":             {strings.Repeat("*4000\r\n", 1000), "a length that no answer has"},
		"a line":                     {"+" + strings.Repeat("x", 2<<20), "more than is read"},
		"a text behind a text":       {"$3\r\n$9\r\r\n$" + most, "a length that no answer has"},
	} {
		for _, at := range []string{"hello", "ping", "info replication"} {
			t.Run(name+", for "+at, func(t *testing.T) {
				f := serve(t, func(command string) string {
					if strings.HasPrefix(command, at) {
						return c.said
					}
					return ""
				})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				checkReason(t, f.probe(t.Context(), Options{}), c.want)
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
					t.Errorf("it took %d MiB", took>>20)
				}
			})
		}
	}
}

// Whatever comes, and in whatever pieces, there is a verdict.
func FuzzServer(f *testing.F) {
	hello := ordinary("hello 2")
	f.Add([]byte(hello+"+PONG\r\n"+bulk(asMaster)+bulk(loaded)), 1)
	f.Add([]byte("-ERR no\r\n+OK\r\n+PONG\r\n"+bulk(asSlave)+bulk(loaded)), 7)
	f.Add([]byte("%1\r\n+a\r\n*-1\r\n>1\r\n+x\r\n$1073741824\r\n"), 1000)
	f.Fuzz(func(t *testing.T, said []byte, piece int) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		go func() {
			defer far.Close()
			piece = max(1, piece)
			for ; len(said) > piece; said = said[piece:] {
				if _, err := far.Write(said[:piece]); err != nil {
					return
				}
			}
			far.Write(said)
		}()
		probe := Probe(func(context.Context, health.Target) (net.Conn, error) { return near, nil }, Options{Password: "a secret"})
		if err := probe(t.Context(), health.Target{Address: "a:1"}); err != nil && strings.Contains(err.Error(), "a secret") {
			t.Error(err)
		}
	})
}
