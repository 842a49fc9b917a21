package l4_test

import (
	"io"
	"testing"

	"sluice/l4/l4test"
	"sluice/l4/session"
)

func TestRotatesOverBackends(t *testing.T) {
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
}

func TestHalfCloseKeepsTheReply(t *testing.T) {
	b := l4test.Serve(t, l4test.ReadAllThenReply)
	r := start(t, setup{specs: specs(b.Addr)})
	for range 200 {
		conn := r.dial()
		io.WriteString(conn, "0123456789")
		conn.CloseWrite()
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != "R:0123456789" {
			t.Fatalf("got %q, %v", got, err)
		}
		conn.Close()
		rec := r.record()
		if rec.Cause != session.ClientClosed || rec.ToBackend != 10 || rec.ToClient != 12 || rec.Code != "--" {
			t.Fatalf("record %+v", rec)
		}
	}
}

func TestRefusedBackendIsRedialedElsewhere(t *testing.T) {
	c := l4test.Serve(t, l4test.Tag("C"))
	r := start(t, setup{specs: specs(l4test.Refuse(t), l4test.Refuse(t), c.Addr)})
	for range 30 {
		conn := r.dial()
		if got := line(t, conn); got != "C" {
			t.Fatalf("got %q", got)
		}
		conn.Close()
		r.record()
	}
}
