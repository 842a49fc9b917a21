package l4_test

import (
	"io"
	"testing"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

func TestRotatesOverBackends(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
		r := start(t, setup{specs: specs(a.Addr, b.Addr, c.Addr)})
		got := ""
		for range 7 {
			conn := r.dial()
			got += line(t, conn)
			conn.Close()
		}
		if want := "ABCABCA"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestHalfCloseKeepsTheReply(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		b := l4test.Serve(t, l4test.ReadAllThenReply)
		r := start(t, setup{specs: specs(b.Addr)})
		for range 1000 {
			conn := r.dial()
			io.WriteString(conn, "0123456789")
			conn.CloseWrite()
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "R:0123456789" {
				t.Fatalf("got %q, %v", got, err)
			}
			conn.Close()
			r.mustEnd(session.ClientClosed, "--", 10, 12)
		}
	})
}
