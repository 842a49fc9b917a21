package admin

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/l4/session"
)

func TestUpgradedConnectionHandsOnWhoEnds(t *testing.T) {
	t.Run("the client ends first and still gets the answer", func(t *testing.T) {
		r := start(t, proxying, newPool(t, "web", socket(t, func(c *net.TCPConn, in *bufio.Reader) {
			text, _ := io.ReadAll(in)
			io.WriteString(c, "R:"+string(text)+strings.Repeat("r", 1000))
		}).Addr))
		c, in := r.upgrade()
		io.WriteString(c, "question")
		c.CloseWrite()
		wantBytes(t, in, "R:question"+strings.Repeat("r", 1000))
		wantEOF(t, in)
		r.wantUpgraded(session.ClientClosed, 8, 1010)
	})
	t.Run("the backend ends first and still gets the rest", func(t *testing.T) {
		got := make(chan string, 1)
		r := start(t, proxying, newPool(t, "web", socket(t, func(c *net.TCPConn, in *bufio.Reader) {
			io.WriteString(c, "bye")
			c.CloseWrite()
			text, _ := io.ReadAll(in)
			got <- string(text)
		}).Addr))
		c, in := r.upgrade()
		wantBytes(t, in, "bye")
		wantEOF(t, in)
		io.WriteString(c, "the rest")
		c.CloseWrite()
		if text := await(t, "the rest", got); text != "the rest" {
			t.Errorf("the backend got %q; want the rest", text)
		}
		r.wantUpgraded(session.BackendClosed, 8, 3)
	})
	t.Run("the client resets", func(t *testing.T) {
		gone := make(chan bool, 1)
		r := start(t, proxying, newPool(t, "web", socket(t, func(c *net.TCPConn, in *bufio.Reader) {
			io.WriteString(c, "hi")
			io.Copy(io.Discard, in)
			gone <- true
		}).Addr))
		c, in := r.upgrade()
		wantBytes(t, in, "hi")
		c.SetLinger(0)
		c.Close()
		await(t, "the backend's end", gone)
		r.wantUpgraded(session.ClientReset, 0, 2)
	})
	t.Run("the backend resets", func(t *testing.T) {
		counted := make(chan bool)
		p := newPool(t, "web", socket(t, func(c *net.TCPConn, _ *bufio.Reader) {
			<-counted
			c.SetLinger(0)
		}).Addr)
		r := start(t, proxying, p)
		c, in := r.upgrade()
		io.WriteString(c, "x")
		eventually(t, "the byte is counted", func() bool { return p.Status().Backends[0].BytesToBack == 1 })
		close(counted)
		io.Copy(io.Discard, in)
		r.wantUpgraded(session.BackendReset, 1, 0)
	})
}

func wantEOF(t *testing.T, in io.Reader) {
	t.Helper()
	if n, err := in.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("got %d bytes, %v; want EOF", n, err)
	}
}

func (r *rig) wantUpgraded(c session.Cause, toBackend, toClient int64) {
	r.t.Helper()
	rec := r.record()
	if rec.Cause != c || rec.ToBackend != toBackend || rec.ToClient != toClient {
		r.t.Errorf("got %+v; want %s, %d to the backend, %d to the client", rec, c, toBackend, toClient)
	}
	b := r.backend("a")
	if b.BytesToBack != toBackend || b.BytesToClient != toClient || b.DialFailures != 0 || b.Total != 1 {
		r.t.Errorf("got %+v; want the record's bytes and no failure", b)
	}
}

func TestBytesSentAlongWithTheUpgradeAreNotLost(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", echoSocket(t).Addr))
	c := r.connect()
	early := strings.Repeat("e", 3000)
	io.WriteString(c, get("/proxy/", "Connection: Upgrade", "Upgrade: websocket")+early)
	in := bufio.NewReader(c)
	if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != 101 {
		t.Fatalf("got %v, %v; want 101", res, err)
	}
	wantBytes(t, in, early)
	io.WriteString(c, "late")
	wantBytes(t, in, "late")
	c.CloseWrite()
	wantEOF(t, in)
}

func TestUpgradedConnectionHoldsItsLease(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", echoSocket(t).Addr))
	c, in := r.upgrade()
	if b := r.backend("a"); b.Active != 1 || b.Total != 1 {
		t.Errorf("got %+v; want 1 active of 1", b)
	}
	c.CloseWrite()
	wantEOF(t, in)
	eventually(t, "the release", func() bool { return r.backend("a").Active == 0 })
}

func TestHalfClosedSilenceHasAnEnd(t *testing.T) {
	for _, who := range []string{"client", "backend"} {
		t.Run("after the "+who+" ended", func(t *testing.T) {
			short := defaults
			short.HalfCloseTimeout = 50 * time.Millisecond
			r := startWith(t, short, proxying, newPool(t, "web", socket(t, func(c *net.TCPConn, in *bufio.Reader) {
				if who == "backend" {
					c.CloseWrite()
				}
				io.Copy(io.Discard, in)
				if who == "client" {
					c.CloseRead()
					<-t.Context().Done()
				}
			}).Addr))
			c, in := r.upgrade()
			if who == "client" {
				c.CloseWrite()
			}
			io.Copy(io.Discard, in)
			if rec := r.record(); rec.Cause != session.HalfCloseTimeout {
				t.Errorf("got %+v; want half_close_timeout", rec)
			}
		})
	}
}

func TestRefusedUpgradeIsAPlainResponse(t *testing.T) {
	r := start(t, proxying, newPool(t, "web", namedWeb(t, "no socket here")))
	r.do("GET", "/proxy/", "", "Connection: Upgrade", "Upgrade: websocket").want(t, 200, "no socket here")
}

func TestBackendMayNotSwitchUnasked(t *testing.T) {
	for _, c := range []struct{ ask, give string }{
		{"", switched},
		{"websocket", strings.Replace(switched, "websocket", "h2c", 1)},
		{"websocket", "HTTP/1.1 101 Switching Protocols\r\n\r\n"},
	} {
		b := raw(t, func(c2 *net.TCPConn, in *bufio.Reader, _ *http.Request) {
			io.WriteString(c2, c.give)
			io.Copy(io.Discard, in)
		})
		r := start(t, proxying, newPool(t, "web", b.Addr))
		var headers []string
		if c.ask != "" {
			headers = []string{"Connection: Upgrade", "Upgrade: " + c.ask}
		}
		r.do("GET", "/proxy/", "", headers...).want(t, 502, "not asked for")
		eventually(t, "the close", func() bool { return b.Active() == 0 })
		if rec := r.record(); rec.Cause != session.BackendReset {
			t.Errorf("got %+v; want backend_reset", rec)
		}
	}
}
