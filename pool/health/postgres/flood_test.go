package postgres

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"sluice/pool/health"

	"github.com/jackc/pgx/v5/pgproto3"
)

// bytes of the messages of a server.
func said(t testing.TB, messages ...pgproto3.BackendMessage) (text []byte) {
	t.Helper()
	for _, m := range messages {
		var err error
		if text, err = m.Encode(text); err != nil {
			t.Fatal(err)
		}
	}
	return text
}

// A server that never comes to an end costs no memory.
func TestAnswerWithoutEnd(t *testing.T) {
	in := said(t, &pgproto3.AuthenticationOk{}, &pgproto3.ReadyForQuery{TxStatus: 'I'})
	for name, c := range map[string]struct {
		begin []byte
		again pgproto3.BackendMessage
	}{
		"parameters":     {nil, &pgproto3.ParameterStatus{Name: "a", Value: strings.Repeat("x", 60_000)}},
		"notices":        {nil, &pgproto3.NoticeResponse{Message: strings.Repeat("x", 60_000)}},
		"rows":           {append(in, said(t, &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, 1)})...), row(strings.Repeat("x", 60_000))},
		"notifications":  {in, &pgproto3.NotificationResponse{Payload: strings.Repeat("x", 60_000)}},
		"no data":        {in, &pgproto3.EmptyQueryResponse{}},
		"asks to log in": {nil, &pgproto3.AuthenticationCleartextPassword{}},
	} {
		t.Run(name, func(t *testing.T) {
			address := flood(t, c.begin, said(t, c.again))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := Probe(dial, Options{User: "sluice", Password: "a secret"})(t.Context(), health.Target{Address: address})
			checkReason(t, err, "no answer: got ") // "more than is read", or what the library makes of it
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
				t.Errorf("it took %d MiB", took>>20)
			}
		})
	}
}

// flood is a server that says begin, and then again for ever.
func flood(t *testing.T, begin, again []byte) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		go io.Copy(io.Discard, c)
		c.Write(begin)
		for err == nil {
			_, err = c.Write(again)
		}
	}()
	return ln.Addr().String()
}

// Whatever comes, there is a verdict.
func FuzzServer(f *testing.F) {
	f.Add(said(f, &pgproto3.AuthenticationOk{}, &pgproto3.ReadyForQuery{TxStatus: 'I'},
		&pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, 6)}, primary, &pgproto3.CommandComplete{}, &pgproto3.ReadyForQuery{TxStatus: 'I'}))
	f.Add(said(f, &pgproto3.AuthenticationSASL{AuthMechanisms: []string{"SCRAM-SHA-256"}},
		&pgproto3.AuthenticationSASLContinue{Data: []byte("r=abc,s=YWJj,i=4096")}))
	f.Add(said(f, &pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "no"}))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		go func() {
			defer far.Close()
			far.Write(said)
		}()
		probe := Probe(func(context.Context, health.Target) (net.Conn, error) { return near, nil }, Options{User: "sluice", Password: "a secret"})
		if err := probe(t.Context(), health.Target{Address: "a:1"}); err != nil && strings.Contains(err.Error(), "a secret") {
			t.Error(err)
		}
	})
}
