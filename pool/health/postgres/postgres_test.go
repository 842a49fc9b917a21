package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/pool/health"

	"github.com/jackc/pgx/v5/pgproto3"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a server that lets everybody in. answer gives the rows for a query, or
// the error; nil is silence.
type fake struct {
	address string
	mu      sync.Mutex // guards the rest
	told    []string   // parameters of the login, queries, and how it ended
	conns   int
}

type answer func(query string) pgproto3.BackendMessage

// row is a message of one row.
func row(values ...string) *pgproto3.DataRow {
	r := &pgproto3.DataRow{}
	for _, v := range values {
		if v == "NULL" {
			r.Values = append(r.Values, nil)
			continue
		}
		r.Values = append(r.Values, []byte(v))
	}
	return r
}

// primary is what one says of itself, standby the same of one with those values.
var primary = row("f", "f", "f", "NULL", "f", "NULL")

func standby(fed, due, caughtUp, age string) *pgproto3.DataRow {
	return row("t", "t", fed, due, caughtUp, age)
}

func serve(t *testing.T, login, query answer) *fake {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{address: ln.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f.note("", 1)
			running.Go(func() { defer c.Close(); f.talk(c, login, query) })
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return f
}

func (f *fake) note(text string, conns int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns += conns
	if text != "" {
		f.told = append(f.told, text)
	}
}

// heard waits until f was told so much, and returns it.
func (f *fake) heard(t *testing.T, n int) []string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		f.mu.Lock()
		told := f.told
		f.mu.Unlock()
		if len(told) >= n {
			return told
		}
	}
	t.Fatalf("got %q, want %d messages", f.told, n)
	return nil
}

func (f *fake) talk(c net.Conn, login, query answer) {
	s := pgproto3.NewBackend(c, c)
	start, err := s.ReceiveStartupMessage()
	if err != nil {
		f.note(fmt.Sprint("(", err, ")"), 0)
		return
	}
	if _, ok := start.(*pgproto3.SSLRequest); ok {
		f.note("TLS?", 0)
		c.Write([]byte("N"))
		return
	}
	f.note(fmt.Sprint(start.(*pgproto3.StartupMessage).Parameters), 0)
	first := login("")
	if first == nil {
		c.Read(make([]byte, 1))
		return
	}
	s.Send(first)
	if _, ok := first.(*pgproto3.AuthenticationOk); ok {
		s.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	}
	s.Flush()
	for {
		m, err := s.Receive()
		if err != nil {
			f.note(fmt.Sprint("(", err, ")"), 0)
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query:
			f.note(m.String, 0)
			f.reply(s, query(m.String), true)
		case *pgproto3.Parse:
			f.note(m.Query, 0)
			f.reply(s, query(m.Query), false)
		case *pgproto3.Terminate:
			f.note("terminate", 0)
		case *pgproto3.PasswordMessage:
			f.note("password "+m.Password, 0)
			s.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password " + m.Password + " is wrong"})
			s.Flush()
			return
		}
	}
}

func (f *fake) reply(s *pgproto3.Backend, m pgproto3.BackendMessage, simple bool) {
	if m == nil {
		return
	}
	if r, ok := m.(*pgproto3.DataRow); ok {
		columns := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(r.Values))}
		if !simple {
			s.Send(&pgproto3.ParseComplete{})
			s.Send(&pgproto3.BindComplete{})
		}
		s.Send(columns)
	}
	s.Send(m)
	if _, failed := m.(*pgproto3.ErrorResponse); !failed {
		s.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	}
	s.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	s.Flush()
}

func letIn(string) pgproto3.BackendMessage { return &pgproto3.AuthenticationOk{} }

func says(m pgproto3.BackendMessage) answer { return func(string) pgproto3.BackendMessage { return m } }

func dial(ctx context.Context, t health.Target) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", t.Address)
}

func (f *fake) probe(ctx context.Context, o Options) error {
	return Probe(dial, o)(ctx, health.Target{Address: f.address})
}

func checkReason(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v, want that it is fit", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q in it", err, want)
	case errors.Is(err, health.ErrNoEvidence):
		t.Errorf("%v counts for nothing", err)
	}
}

// The role decides, and for a replica how far it is behind.
func TestAnswers(t *testing.T) {
	near, far := "0.5", "12.34"
	const max = 5 * time.Second
	for name, c := range map[string]struct {
		o    Options
		row  *pgproto3.DataRow
		want string // part of the reason; empty: fit
	}{
		"any, primary":             {Options{Role: "any"}, primary, ""},
		"any, replica":             {Options{Role: "any"}, standby("f", "NULL", "f", "NULL"), ""},
		"primary":                  {Options{Role: "primary", MaxLag: max}, primary, ""},
		"no primary":               {Options{Role: "primary"}, standby("t", "0/1", "t", near), "is a replica, and a primary is wanted"},
		"read only":                {Options{Role: "primary"}, row("f", "t", "f", "NULL", "f", "NULL"), "takes no writes"},
		"any, read only":           {Options{Role: "any"}, row("f", "t", "f", "NULL", "f", "NULL"), ""},
		"replica":                  {Options{Role: "replica"}, standby("t", "0/1", "t", near), ""},
		"no replica":               {Options{Role: "replica"}, primary, "is a primary, and a replica is wanted"},
		"replica, alone, no limit": {Options{Role: "replica"}, standby("f", "NULL", "f", "NULL"), ""},
		"has all, idle for long":   {Options{Role: "replica", MaxLag: max}, standby("t", "0/1", "t", "99999"), ""},
		"has all, never had one":   {Options{Role: "replica", MaxLag: max}, standby("t", "0/1", "t", "NULL"), ""},
		"near":                     {Options{Role: "replica", MaxLag: max}, standby("t", "0/1", "f", near), ""},
		"near, alone":              {Options{Role: "replica", MaxLag: max}, standby("f", "0/1", "t", near), ""},
		"far":                      {Options{Role: "replica", MaxLag: max}, standby("t", "0/1", "f", far), "lags 12.3s, more than 5s"},
		"far, alone":               {Options{Role: "any", MaxLag: max}, standby("f", "0/1", "t", far), "lags 12.3s, more than 5s, and is not connected to its primary"},
		"unknown":                  {Options{Role: "replica", MaxLag: max}, standby("t", "0/1", "f", "NULL"), "no transaction yet that says how far it lags"},
		"from an archive":          {Options{Role: "replica", MaxLag: max}, standby("f", "NULL", "f", near), ""},
		"fewer columns":            {Options{}, row("f", "f"), "answered with 2 columns, not the 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, letIn, func(query string) pgproto3.BackendMessage {
				if strings.HasPrefix(query, "select pg_last_wal_replay_lsn()") {
					return row("f")
				}
				return c.row
			})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // half of which bounds a second look
			defer cancel()
			checkReason(t, f.probe(ctx, c.o), c.want)
			told := f.heard(t, 3)
			for n := 4; !strings.HasPrefix(told[len(told)-1], "("); n++ {
				told = f.heard(t, n)
			}
			if told[len(told)-2] != "terminate" || !strings.HasPrefix(told[1], "\nselect pg_is_in_recovery()") {
				t.Errorf("got %q", told)
			}
		})
	}
}

// A standby that has something to do is given time for it: the age of its last
// transaction says nothing.
func TestFollows(t *testing.T) {
	looks := 0
	f := serve(t, letIn, func(query string) pgproto3.BackendMessage {
		if !strings.HasPrefix(query, "select pg_last_wal_replay_lsn()") {
			return standby("t", "0/1", "f", "3600")
		}
		if looks++; looks < 3 {
			return row("f")
		}
		return row("t")
	})
	checkReason(t, f.probe(t.Context(), Options{Role: "replica", MaxLag: 10 * time.Second}), "")
	if looks != 3 {
		t.Errorf("got %d looks, want 3", looks)
	}
}

// What a server refuses is the reason, without the password that it may repeat.
func TestRefusals(t *testing.T) {
	const secret = "the-password"
	refusal := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P03", Message: "the database system is starting up"}
	for name, c := range map[string]struct {
		login, query answer
		want         string
	}{
		"starting": {says(refusal), nil, "FATAL: the database system is starting up (SQLSTATE 57P03)"},
		"password": {says(&pgproto3.AuthenticationCleartextPassword{}), nil, "FATAL: password *** is wrong (SQLSTATE 28P01)"},
		"long":     {says(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "x", Message: strings.Repeat("x", 5000)}), nil, "xxx..."},
		"query":    {letIn, says(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42501", Message: "permission denied"}), "ERROR: permission denied (SQLSTATE 42501)"},
		"nothing":  {letIn, says(&pgproto3.EmptyQueryResponse{}), "not the one row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := serve(t, c.login, c.query).probe(t.Context(), Options{User: "sluice", Password: secret})
			checkReason(t, err, c.want)
			if err != nil && (strings.Contains(err.Error(), secret) || len(err.Error()) > 250) {
				t.Errorf("got %q", err)
			}
		})
	}
	f := serve(t, letIn, says(primary))
	checkReason(t, f.probe(t.Context(), Options{TLS: &tls.Config{InsecureSkipVerify: true}}), "TLS: server refused TLS connection")
}

// Another protocol, a connection that ends, and one that says nothing are no answer.
func TestNoAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	words := make(chan string, 1)
	go func() {
		for text := range words {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1000))
			fmt.Fprint(c, text)
			c.Close()
		}
	}()
	defer close(words)
	for text, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "no answer of PostgreSQL: got a message of 1414811691 bytes",
		"":                                 "no answer: got its end",
		"-ERR unknown command\r\n":         "no answer of PostgreSQL: got a message of ",
		"R\xff\xff\xff\xff":                "no answer: got ",
		"d\x00\x00\x00\x0a5.5.5-10.11":     "no answer: got received unexpected message",
	} {
		words <- text
		err := Probe(dial, Options{User: "x"})(t.Context(), health.Target{Address: ln.Addr().String()})
		checkReason(t, err, want)
		if strings.Contains(err.Error(), "%!") {
			t.Errorf("got %v", err)
		}
	}
	want := fmt.Errorf("%w: no descriptors", health.ErrNoEvidence)
	failing := Probe(func(context.Context, health.Target) (net.Conn, error) { return nil, want }, Options{})
	if err := failing(t.Context(), health.Target{Address: "127.0.0.1:1"}); !errors.Is(err, health.ErrNoEvidence) {
		t.Errorf("got %v, want what the dial said", err)
	}
}

// A probe ends with its time, and at once when nobody wants it any more, on one
// connection: no query is canceled on another.
func TestSilence(t *testing.T) {
	for name, f := range map[string]*fake{"login": serve(t, says(nil), nil), "query": serve(t, letIn, says(nil))} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		checkReason(t, f.probe(ctx, Options{}), "no answer: got nothing more in time")
		cancel()
		before := map[string]int{"login": 1, "query": 3}[name] // what the first has said, its end included
		f.heard(t, before)
		ctx, cancel = context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.probe(ctx, Options{}) }()
		f.heard(t, before+1)
		cancel()
		if err := <-ended; err == nil {
			t.Errorf("%s: fit, though nobody waited for it", name)
		}
		f.mu.Lock()
		if f.conns > 2 {
			t.Errorf("%s: got %d connections of two probes", name, f.conns)
		}
		f.mu.Unlock()
	}
}

// Nothing of the environment, and of no file that it or the library names, reaches
// a server.
func TestEnvironment(t *testing.T) {
	home := t.TempDir()
	service := filepath.Join(home, "service")
	for path, text := range map[string]string{
		service:                         "[s]\nhost=/nowhere\nuser=service\n",
		filepath.Join(home, ".pgpass"):  "*:*:*:*:of-pgpass\n",
		filepath.Join(home, "passfile"): "*:*:*:*:of-passfile\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	clean, err := blank()
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{
		"HOME": home, "PGPASSFILE": filepath.Join(home, "passfile"), "PGSERVICEFILE": service, "PGHOST": "/nowhere", "PGPORT": "x",
		"PGDATABASE": "other", "PGUSER": "other", "PGPASSWORD": "other", "PGAPPNAME": "other", "PGCONNECT_TIMEOUT": "x", "PGTZ": "x",
		"PGOPTIONS": "-c x=y", "PGMINPROTOCOLVERSION": "9", "PGMAXPROTOCOLVERSION": "9", "PGTARGETSESSIONATTRS": "x", "PGLOADBALANCEHOSTS": "x",
	}
	for _, name := range strings.Fields("MODE KEY CERT CERTMODE SNI ROOTCERT PASSWORD NEGOTIATION CRL") {
		settings["PGSSL"+name] = "x"
	}
	for _, name := range strings.Fields("CHANNELBINDING REQUIREAUTH KRBSRVNAME GSSENCMODE REQUIREPEER CLIENTENCODING GEQO DATESTYLE") {
		settings["PG"+name] = "x"
	}
	for name, value := range settings {
		t.Setenv(name, value)
	}
	for _, name := range []string{"s", "none"} { // one that is there, and one that is not
		t.Setenv("PGSERVICE", name)
		dirty, err := blank()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := plain(dirty), plain(clean); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	f := serve(t, letIn, says(primary))
	checkReason(t, f.probe(t.Context(), Options{User: "sluice"}), "")
	if got, want := f.heard(t, 1)[0], "map[application_name:sluice database:postgres user:sluice]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f = serve(t, says(&pgproto3.AuthenticationCleartextPassword{}), nil)
	checkReason(t, f.probe(t.Context(), Options{User: "sluice"}), "is wrong")
	if got := f.heard(t, 2)[1]; got != "password " {
		t.Errorf("got %q, want no password", got)
	}
}

// plain returns the settings that compare, by name.
func plain(set any) map[string]any {
	values := map[string]any{}
	v := reflect.ValueOf(set).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Type.Kind() != reflect.Func {
			values[f.Name] = v.Field(i).Interface()
		}
	}
	return values
}
