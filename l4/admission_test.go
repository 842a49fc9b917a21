package l4_test

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"sluice/l4"
	"sluice/l4/access"
	"sluice/l4/l4test"
	"sluice/l4/session"
)

func set(texts ...string) *access.Set {
	var list []netip.Prefix
	for _, s := range texts {
		list = append(list, netip.MustParsePrefix(s))
	}
	return access.NewSet(list)
}

// dialAs connects a client with an address of its own on loopback.
func (r *rig) dialAs(from string) (*net.TCPConn, error) {
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(2 * l4test.Patience))
	return c.(*net.TCPConn), nil
}

// mustTurnAway checks that a client is reset, whatever it says.
func (r *rig) mustTurnAway(from, hello, reason string) {
	r.t.Helper()
	c, err := r.dialAs(from)
	if err == nil {
		if _, err = fmt.Fprint(c, hello); err == nil { // the error is told once
			_, err = c.Read(make([]byte, 1))
		}
		c.Close()
	}
	if how := ending(err); how != "reset" {
		r.t.Errorf("%s: the client saw %v, want a reset", from, how)
	}
	if who := r.mustRefuse(reason); who.Addr().String() != from {
		r.t.Errorf("%v was refused, want %s", who, from)
	}
}

// mustServe checks that a client gets to the backend, which greets with A, and
// returns it.
func (r *rig) mustServe(from string) *net.TCPConn {
	r.t.Helper()
	c, err := r.dialAs(from)
	if err != nil {
		r.t.Fatal(err)
	}
	if got := line(r.t, c); got != "A" {
		r.t.Errorf("%s: got %q", from, got)
	}
	return c
}

// B159: the lists hold for TCP, on every kind of listener; what a peer that is not
// believed says of itself changes nothing, and who is denied costs no dial.
func TestAllowAndDeny(t *testing.T) {
	const spoofed = "PROXY TCP4 127.0.0.1 127.0.0.1 1000 2000\r\n"
	onEngines(t, func(t *testing.T, start starter) {
		for _, listen := range []string{"127.0.0.1:0", "[::]:0"} {
			for _, mode := range []session.HeaderMode{session.NoHeaders, session.AcceptHeaders} {
				b := l4test.Serve(t, l4test.Tag("A"))
				r := start(t, setup{listen: listen, specs: specs(b.Addr), admission: l4.Admission{
					Allow:   set("127.0.0.0/24", "127.0.9.0/24"),
					Deny:    set("127.0.0.2/32", "127.0.0.128/25"),
					Headers: session.HeaderRules{Mode: mode, From: set("10.0.0.0/8"), Timeout: time.Minute},
				}})
				for _, from := range []string{"127.0.0.2", "127.0.0.200", "127.0.1.1"} {
					r.mustTurnAway(from, "hello", "denied")
					r.mustTurnAway(from, spoofed, "denied")
				}
				if b.Total() != 0 {
					t.Errorf("%d clients that are denied reached the backend", b.Total())
				}
				r.mustServe("127.0.0.3")
				r.mustServe("127.0.9.200")
				if st := r.front.Status(); st.Rejected != 6 || st.RejectedBy["denied"] != 6 || st.Total != 2 {
					t.Errorf("status %+v", st)
				}
			}
		}
	})
}

// A unix socket's clients have no address: no list and no limit is about them.
func TestUnixClientsAreInNoList(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{
			listen: "unix:" + t.TempDir() + "/s", specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr),
			admission: l4.Admission{Allow: set("10.0.0.0/8"), PerClient: access.Limits{Sessions: 1, Rate: 1}},
		})
		for range 3 {
			c, err := net.Dial("unix", r.addr[len("unix:"):])
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got := line(t, c); got != "A" {
				t.Errorf("got %q", got)
			}
		}
	})
}

// B039: one client does not take the places of the others, and its own are free
// again when its sessions are over.
func TestSessionsPerClient(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{
			maxSessions: 100, admission: l4.Admission{PerClient: access.Limits{Sessions: 20}},
			specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr),
		})
		var held []*net.TCPConn
		for range 20 {
			held = append(held, r.mustServe("127.0.0.1"))
		}
		for range 60 {
			r.mustTurnAway("127.0.0.1", "hello", "client_limit")
		}
		for range 20 {
			held = append(held, r.mustServe("127.0.0.2"))
		}
		if st := r.front.Status(); st.Clients != 2 || st.Active != 40 || st.RejectedBy["client_limit"] != 60 || st.Total != 40 {
			t.Errorf("status %+v", st)
		}
		for _, c := range held {
			c.Close()
		}
		for range held {
			r.record()
		}
		if st := r.front.Status(); st.Clients != 0 || st.Active != 0 {
			t.Errorf("after the last session: %+v", st)
		}
		r.mustServe("127.0.0.1")
	})
}

// A client begins as many sessions at once as its rate; who is over another limit
// meanwhile loses nothing.
func TestRatePerClient(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		const rate = 3
		r := start(t, setup{
			maxSessions: 2, admission: l4.Admission{PerClient: access.Limits{Rate: rate}},
			specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr),
		})
		began := time.Now()
		a, b := r.mustServe("127.0.0.1"), r.mustServe("127.0.0.2")
		for range 10 {
			r.mustTurnAway("127.0.0.1", "", "frontend_limit")
		}
		a.Close()
		b.Close()
		r.record()
		r.record()
		served := 1
		for ; ; served++ {
			c, err := r.dialAs("127.0.0.1")
			if err == nil {
				_, err = c.Read(make([]byte, 2))
				c.Close()
			}
			if err != nil {
				break
			}
			r.record()
		}
		took := time.Since(began)
		if most := rate + int(took*rate/time.Second) + 1; served < rate || served > most {
			t.Errorf("%d sessions began in %v, want %d to %d", served, took, rate, most)
		}
		r.mustRefuse("client_rate")
	})
}

// A reload switches a limit for those who come; who was counted in is counted out
// once, and who was not is not.
func TestClientLimitsOfAReload(t *testing.T) {
	onEngines(t, func(t *testing.T, start starter) {
		r := start(t, setup{specs: specs(l4test.Serve(t, l4test.Tag("A")).Addr)})
		use := func(sessions int) {
			c := r.config
			c.Admission.PerClient.Sessions = sessions
			r.front.Use(c)
		}
		end := func(c *net.TCPConn) {
			t.Helper()
			c.Close()
			r.record()
		}
		uncounted := r.mustServe("127.0.0.1")
		use(2)
		first := r.mustServe("127.0.0.1")
		end(uncounted)
		second := r.mustServe("127.0.0.1")
		r.mustTurnAway("127.0.0.1", "", "client_limit")
		use(0)
		third := r.mustServe("127.0.0.1")
		end(first)
		use(2)
		fourth := r.mustServe("127.0.0.1")
		r.mustTurnAway("127.0.0.1", "", "client_limit")
		use(3)
		fifth := r.mustServe("127.0.0.1")
		use(1)
		r.mustTurnAway("127.0.0.1", "", "client_limit")
		for _, c := range []*net.TCPConn{second, third, fourth, fifth} {
			end(c)
		}
		if st := r.front.Status(); st.Clients != 0 {
			t.Errorf("%d clients are counted after the last session", st.Clients)
		}
	})
}
