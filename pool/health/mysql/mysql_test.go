package mysql

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
	"sluice/pool/health"

	"go.uber.org/goleak"
)

func dial(ctx context.Context, t health.Target) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", t.Address)
}

const secret = "hunter22"

func variables(pairs ...string) [][]string {
	rows := [][]string{{"Variable_name", "Value"}}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		rows = append(rows, []string{name, value})
	}
	return rows
}

// A whole visit: it asks what it has to know and nothing else, and leaves well.
func TestProbe(t *testing.T) {
	replica := map[string][][]string{
		"SHOW GLOBAL VARIABLES": variables("version=8.4.2", "read_only=ON", "super_read_only=ON"),
		"SHOW REPLICA STATUS": {{"Replica_IO_Running", "Replica_SQL_Running", "Seconds_Behind_Source", "Channel_Name"},
			{"Yes", "Yes", "7", ""}},
	}
	for name, c := range map[string]struct {
		answers map[string][][]string
		options Options
		want    string
	}{
		"any asks nothing":       {nil, Options{Role: "any"}, ""},
		"primary":                {map[string][][]string{"SHOW GLOBAL VARIABLES": variables("read_only=OFF")}, Options{Role: "primary"}, ""},
		"a replica is no":        {replica, Options{Role: "primary"}, "read_only is ON, and a primary is wanted"},
		"replica":                {replica, Options{Role: "replica"}, ""},
		"that lags":              {replica, Options{Role: "replica", MaxLag: 5 * time.Second}, "lags 7s, more than 5s"},
		"that lags, any":         {replica, Options{Role: "any", MaxLag: 5 * time.Second}, "lags 7s, more than 5s"},
		"the lag of a primary":   {map[string][][]string{"SHOW GLOBAL VARIABLES": variables("read_only=OFF")}, Options{Role: "primary", MaxLag: 1}, ""},
		"no Galera":              {replica, Options{Role: "any", WsrepReady: true}, `SHOW GLOBAL STATUS: error 1064: You have an error in your SQL syntax near '`},
		"a query that is denied": {nil, Options{Role: "primary"}, `SHOW GLOBAL VARIABLES: error 1064: You have an error in your SQL syntax near '`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ends := serve(t, answers(c.answers))
			c.options.User, c.options.Password = "sluice", secret
			err := Probe(dial, c.options)(t.Context(), health.Target{Address: address})
			if strings.HasSuffix(c.want, "'") && err != nil && strings.HasPrefix(err.Error(), c.want) {
				err, c.want = nil, ""
			}
			wantReason(t, name, err, c.want)
			if end := <-ends; end != nil {
				t.Errorf("the server saw %v, want COM_QUIT and an end", end)
			}
		})
	}
}

// Neither a visit that went well nor one that did not leaves anything behind.
func TestProbeLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("visits", func(t *testing.T) {
		for _, serving := range []func(*server){
			answers(nil),
			func(s *server) { s.greet(); s.read(); s.refuse(1045, "28000", "Access denied") },
			func(s *server) { s.greet(); s.read() },
			func(s *server) {},
		} {
			address, _ := serve(t, serving)
			// The verdict is not what this is about.
			_ = Probe(dial, Options{User: "sluice"})(t.Context(), health.Target{Address: address})
		}
	})
	goleak.VerifyNone(t, before)
}

// What is no server of MySQL, or one that ends in the middle, is told of in words.
func TestProbeOfSomethingElse(t *testing.T) {
	raw := func(text string) func(*server) {
		return func(s *server) {
			io.WriteString(s, text)
			s.Conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, s)
		}
	}
	long := greeting("8.4.0", strings.Repeat("x", 5000))
	for name, c := range map[string]struct {
		serve func(*server)
		want  string
	}{
		"ends":         {func(*server) {}, "no greeting: got its end"},
		"SSH":          {raw("SSH-2.0-OpenSSH_9.2\r\n"), `no greeting of MySQL: got "SSH-"`},
		"two bytes":    {raw("ok"), `no greeting of MySQL: got "ok", then its end`},
		"half of one":  {raw("\x4a\x00\x00\x00\x0a8.4"), `no greeting of MySQL: got "J\x00\x00\x00\n8.4", then its end`},
		"empty":        {raw("\x00\x00\x00\x00"), `no greeting of MySQL: got "\x00\x00\x00\x00"`},
		"old protocol": {func(s *server) { s.send(9, '3', 0); s.read() }, `no greeting of MySQL: got "\x03\x00\x00\x00\t3\x00"`},
		"no version":   {func(s *server) { s.send(10, '8', '8'); s.read() }, `no greeting of MySQL: got "\x03\x00\x00\x00\n88"`},
		"short":        {func(s *server) { s.send(greeting("8", "")[:46]...); s.read() }, ""},
		"too long":     {func(s *server) { s.send(long...); s.read() }, ""},
		"a short no":   {func(s *server) { s.send(0xff, 1, 2); s.read() }, `no greeting of MySQL: got "\x03\x00\x00\x00\xff\x01\x02"`},
		"full":         {func(s *server) { s.refuse(1040, "08004", "Too many connections") }, "login refused: error 1040: Too many connections"},
		"no state":     {func(s *server) { s.send(append([]byte{0xff, 0x69, 4}, "Host is blocked"...)...) }, "login refused: error 1129: Host is blocked"},
		"ends at the login": {func(s *server) { s.greet(); s.read() },
			"no answer to the login: got its end"},
		"repeats the password": {func(s *server) { s.greet(); s.read(); s.refuse(1045, "28000", "no "+secret+" here") },
			"login refused: error 1045: no *** here"},
		"asks for it in clear": {func(s *server) {
			s.greet()
			s.read()
			s.send(append([]byte{0xfe}, "mysql_clear_password\x00"...)...)
			s.read()
		}, "log in: this user requires clear text authentication. If you still want to use it, please add 'allowCleartextPasswords=1' to your DSN"},
		"an OK that is short": {func(s *server) { s.greet(); s.read(); s.send(0); s.read() }, "no answer of MySQL: a packet is too short"},
		"ends at a query": {func(s *server) { s.greet(); s.read(); s.ok(); s.read() },
			"SHOW GLOBAL VARIABLES: got its end"},
		"answers a query without an end": {func(s *server) {
			s.greet()
			s.read()
			s.ok()
			s.read()
			s.send(1)
			for s.fault == nil {
				s.send(make([]byte, 60000)...)
			}
		}, "SHOW GLOBAL VARIABLES: got more than is read"},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := serve(t, c.serve)
			err := Probe(dial, Options{User: "sluice", Password: secret, Role: "primary"})(t.Context(), health.Target{Address: address})
			if c.want == "" && err != nil && strings.HasPrefix(err.Error(), "no greeting of MySQL: got ") {
				return
			}
			wantReason(t, name, err, c.want)
		})
	}
}

// TLS that the server does not have, and a certificate that nobody vouches for, end
// the login on our side: that is not tried at every probe.
func TestProbeBreaksOffSeldom(t *testing.T) {
	var visits atomic.Int32
	address, _ := serve(t, func(s *server) { visits.Add(1); s.greet(); s.read() })
	probe := Probe(dial, Options{User: "sluice", TLS: &tls.Config{}})
	for range 20 {
		err := probe(t.Context(), health.Target{Address: address})
		if err == nil || !strings.HasPrefix(err.Error(), "log in: TLS requested but server does not support TLS") {
			t.Fatalf("got %v", err)
		}
	}
	if got := visits.Load(); got != unpaused {
		t.Errorf("got %d visits, want %d", got, unpaused)
	}
}

// caching_sha2_password without TLS and with nothing cached: the password is sent
// under the server's key.
func TestProbeSendsPasswordUnderTheKey(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	address, ends := serve(t, func(s *server) {
		s.send(greeting("8.4.0", "caching_sha2_password")...)
		s.read()
		s.send(1, 4) // all of it, please
		if got := s.read(); string(got) != "\x02" {
			s.fault = errors.New("it did not ask for the key")
			return
		}
		s.send(append([]byte{1}, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})...)...)
		plain, err := rsa.DecryptOAEP(sha1.New(), nil, key, s.read(), nil)
		for i := range plain {
			plain[i] ^= nonce[i%len(nonce)]
		}
		if err != nil || string(plain) != secret+"\x00" {
			s.refuse(1045, "28000", "Access denied")
			return
		}
		s.ok()
		s.commands(nil)
	})
	wantReason(t, "verdict", Probe(dial, Options{User: "sluice", Password: secret})(t.Context(), health.Target{Address: address}), "")
	if end := <-ends; end != nil {
		t.Errorf("the server saw %v", end)
	}
}

// monitored runs a monitor with short probes of one backend until the test ends, and
// returns its results.
func monitored(t *testing.T, address string, probe health.Probe) (*pool.Backend, chan error, context.CancelFunc) {
	t.Helper()
	strategy, err := balance.ByName("round_robin", "")
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New("p", pool.Config{Strategy: strategy, Policy: pool.Policy{Probed: true, Init: pool.InitProbe},
		Backends: []pool.Spec{{ID: "a", Address: address, Weight: 1}}}, pool.Hooks{})
	results := make(chan error, 1000)
	m := health.NewMonitor(p, probe, health.Policy{Interval: time.Millisecond, DownInterval: time.Millisecond,
		Timeout: 30 * time.Millisecond, Rise: 1, Fall: 1}, func(_ *pool.Backend, err error) {
		select {
		case results <- err:
		default:
		}
	})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(ctx)
	}()
	end := func() {
		stop()
		<-done
	}
	t.Cleanup(func() {
		end()
		p.Close()
	})
	return p.Probed()[0], results, end
}

// A server that greets late gets one connection, whose login is finished behind the
// verdicts of several probes, and passes the one that waits then.
func TestProbeFinishesWhatItBegan(t *testing.T) {
	late := make(chan struct{})
	var visits atomic.Int32
	address, ends := serve(t, func(s *server) {
		visits.Add(1)
		<-late
		answers(nil)(s)
	})
	_, results, _ := monitored(t, address, Probe(dial, Options{User: "sluice", Password: secret}))
	for range 5 {
		wantReason(t, "verdict", <-results, "no greeting in time")
	}
	if got := visits.Load(); got != 1 {
		t.Errorf("got %d connections, want one", got)
	}
	close(late)
	for err := range results {
		if err == nil {
			break
		}
	}
	if end := <-ends; end != nil {
		t.Errorf("the server saw %v, want COM_QUIT and an end", end)
	}
}

// One that never greets is reset once nobody probes any more.
func TestProbeResetsWhoNeverGreets(t *testing.T) {
	address, ends := serve(t, func(s *server) { s.read() })
	_, results, stop := monitored(t, address, Probe(dial, Options{User: "sluice"}))
	wantReason(t, "verdict", <-results, "no greeting in time")
	stop()
	if end := <-ends; !errors.Is(end, syscall.ECONNRESET) {
		t.Errorf("the server saw %v, want a reset", end)
	}
}

// One that greets and then says nothing is told of as such.
func TestProbeSaysWhatItWaitsFor(t *testing.T) {
	for want, serving := range map[string]func(*server){
		"no answer to the login in time": func(s *server) { s.greet(); s.read(); s.read() },
		"no answer to a query in time":   func(s *server) { s.greet(); s.read(); s.ok(); s.read(); s.read() },
	} {
		t.Run(want, func(t *testing.T) {
			address, _ := serve(t, serving)
			_, results, _ := monitored(t, address, Probe(dial, Options{User: "sluice", Role: "primary"}))
			for err := range results {
				if err != nil && err.Error() == want {
					return
				}
			}
		})
	}
}

func TestProbeFailsIfTheDialDoes(t *testing.T) {
	fault := errors.Join(health.ErrNoEvidence, syscall.EMFILE)
	probe := Probe(func(context.Context, health.Target) (net.Conn, error) { return nil, fault }, Options{User: "sluice"})
	if err := probe(t.Context(), health.Target{Address: "a:1"}); !errors.Is(err, health.ErrNoEvidence) {
		t.Errorf("got %v", err)
	}
}

// Whatever comes, there is a verdict.
func FuzzServer(f *testing.F) {
	ok := "\x07\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00"
	greet := greeting("8.4.0", "mysql_native_password")
	whole := string(append([]byte{byte(len(greet)), 0, 0, 0}, greet...))
	f.Add([]byte(whole + ok))
	f.Add([]byte(whole + ok + "\x01\x00\x00\x01\x02"))
	f.Add([]byte("\x17\x00\x00\x00\xff\x10\x04#08004Too many"))
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		go io.Copy(io.Discard, far)
		go func() {
			far.Write(said)
			far.Close()
		}()
		probe := Probe(func(context.Context, health.Target) (net.Conn, error) { return near, nil },
			Options{User: "sluice", Password: secret, Role: "replica", WsrepReady: true})
		if err := probe(t.Context(), health.Target{Address: "a:1"}); err == nil {
			t.Error("it has passed")
		}
	})
}

// A stop that comes in the middle of a dial does not end it: the server would count
// a connection without a login. The time of the probe is over when it is over.
func TestProbeDialOutlastsAStop(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	errDial := errors.New("the dial went on")
	err := Probe(func(dialing context.Context, _ health.Target) (net.Conn, error) {
		want, _ := ctx.Deadline()
		if got, ok := dialing.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("got the deadline %v, want that of the probe, %v", got, want)
		}
		stop()
		return nil, cmp.Or(dialing.Err(), errDial)
	}, Options{})(ctx, health.Target{Address: "127.0.0.1:1"})
	if err != errDial {
		t.Errorf("got %v, want that %v", err, errDial)
	}
}
