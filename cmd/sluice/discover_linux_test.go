package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const often = "resolve_interval = \"50ms\"\n"

// A name grows and shrinks under load: no visit fails, new backends get their part
// soon, and those that left get nothing more.
func TestDiscoverUnderLoad(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2", "127.0.1.3")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1", "127.0.1.2")
	d := startDaemon(t, resolving(terse+frontendText("web", free, "p")+
		poolText("p", often, group("db", "db.test:"+f.port, "all")), s))
	d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
	if got := d.backend("p", "db/127.0.1.1"); got.Origin != "dns" || got.Address != "127.0.1.1:"+f.port {
		t.Errorf("got %+v", got)
	}
	l := startLoad(d.frontend("web").Listen, 4)
	for range 3 {
		s.at("db.test", "127.0.1.3", "127.0.1.2", "127.0.1.1")
		d.awaitIDs("db/127.0.1.1 db/127.0.1.2 db/127.0.1.3")
		before := f.all["127.0.1.3"].Total()
		eventually(t, "sessions of the new one", func() bool { return f.all["127.0.1.3"].Total() > before+20 })
		s.at("db.test", "127.0.1.1", "127.0.1.2")
		d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
	}
	l.stop(t)
	if got := d.reasons("db/127.0.1.3", "up"); len(got) < 3 || got[0] != "found under db.test" {
		t.Errorf("reasons %q", got)
	}
	gone := append(d.reasons("db/127.0.1.3", "removed"), d.reasons("db/127.0.1.3", "removing")...)
	if !slices.Contains(gone, "db.test has it no longer") || slices.Contains(gone, "removed from the file") {
		t.Errorf("reasons %q", gone)
	}
	if s.overTCP == 0 {
		t.Error("nothing was asked by TCP")
	}
}

// What is known stays in use whatever becomes of the server, which shows; then it
// is believed again.
func TestDiscoverWithoutServer(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1")
	d := startDaemon(t, resolving(terse+frontendText("web", free, "p")+
		poolText("p", often, group("db", "db.test:"+f.port, "all")), s))
	d.awaitIDs("db/127.0.1.1")
	failures := `sluice_resolve_failures_total{pool="p"} `
	count := func() (n int) {
		_, page := d.ask("GET", "/metrics", "")
		_, after, _ := strings.Cut(page, failures)
		fmt.Sscan(after, &n)
		return n
	}
	l := startLoad(d.frontend("web").Listen, 2)
	for _, how := range []string{"servfail", "nxdomain", "silence"} {
		before := count()
		s.ail("", how)
		eventually(t, how+" shows", func() bool {
			n := d.names()[0]
			return n.Error != "" && !n.Since.IsZero() && !n.LastAnswer.IsZero() && slices.Equal(n.Found, []string{"127.0.1.1:" + f.port})
		})
		eventually(t, how+" counts", func() bool { return count() > before })
		if got := d.ids("p"); got != "db/127.0.1.1" {
			t.Errorf("%s: got %s", how, got)
		}
	}
	s.ail("", "")
	s.at("db.test", "127.0.1.2")
	d.awaitIDs("db/127.0.1.2")
	l.stop(t)
	if n := d.names()[0]; n.Error != "" || !n.Since.IsZero() || n.ID != "db" || n.Name != "db.test" || n.Resolve != "all" {
		t.Errorf("got %+v", n)
	}
	if n := len(d.lines("look-up failed")); n == 0 {
		t.Error("the log says nothing of the failures")
	}
}

// An answer that is no answer takes nothing away, and one that says more than was
// asked adds nothing: names are believed about themselves, and of records for a
// service only those that can be dialed.
func TestDiscoverAndOddAnswers(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1")
	var port uint16
	fmt.Sscan(f.port, &port)
	s := serveNames(t, true)
	good := []dnsmessage.SRVResource{record("a.test", port, 1, 1)}
	s.at("db.test", "127.0.1.1")
	s.at("a.test", "127.0.1.1")
	s.service("srv.test", good...)
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+
		poolText("p", often, group("db", "db.test:"+f.port, "all"), group("srv", "srv.test", "srv")), s))
	await := func(when string, fault bool) {
		t.Helper()
		asked := s.asked("srv.test")
		eventually(t, "an answer to "+when, func() bool {
			n := d.names()
			return s.asked("srv.test") > asked+4 && (n[0].Error != "") == fault
		})
		if got := d.ids("p"); got != "db/127.0.1.1" {
			t.Errorf("%s: got %s", when, got)
		}
		if got := turns(t, d.frontend("web").Listen, 1); got != "127.0.1.1" {
			t.Errorf("%s: got %s", when, got)
		}
	}
	d.awaitIDs("db/127.0.1.1")
	for _, how := range []string{"noise", "another question", "half", "loop"} {
		s.ail("db.test", how)
		await(how, true)
	}
	s.ail("db.test", "")
	s.at("db.test", "127.0.1.1", "0.0.0.0", "::", "::ffff:127.0.1.9")
	await("addresses of nobody", false)
	s.service("srv.test", append(good, record("a.test", 0, 1, 1), record("", port, 1, 1))...)
	await("no port and no target", false)
	if n := d.names()[1]; n.Error != "" || len(n.Found) != 1 || len(n.Skipped) != 1 {
		t.Errorf("got %+v", n)
	}
}

// B067: nothing fails because a name does not exist, or its server does not
// answer; other backends serve at once, and the name does when it exists.
func TestDiscoverNameThatExistsLater(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	for _, how := range []string{"nxdomain", "silence"} {
		s := serveNames(t, true)
		s.ail("", how)
		d := startDaemon(t, resolving(head+frontendText("web", free, "p")+
			poolText("p", often, "plain=127.0.1.2:"+f.port, group("db", "db.test:"+f.port, "all")), s))
		if got := turns(t, d.frontend("web").Listen, 1); got != "127.0.1.2" {
			t.Errorf("%s: got %s", how, got)
		}
		if n := d.names()[0]; len(n.Found) > 0 || !n.LastAnswer.IsZero() {
			t.Errorf("%s: got %+v", how, n)
		}
		s.at("db.test", "127.0.1.1")
		s.ail("", "")
		d.awaitIDs("db/127.0.1.1 plain")
	}
}

// [process].resolver is live, and is asked for names that are one backend as well.
func TestResolverKeyIsLive(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	one, two := serveNames(t, true), serveNames(t, false) // the second by UDP alone
	one.at("db.test", "127.0.1.1")
	two.at("db.test", "127.0.1.2")
	text := func(s *nameServer) string {
		return resolving(head+frontendText("web", free, "p")+frontendText("old", free, "q")+
			poolText("p", "resolve_interval = \"1h\"", group("db", "db.test:"+f.port, "all"))+
			poolText("q", "", "db=db.test:"+f.port), s)
	}
	d := startDaemon(t, text(one))
	d.awaitIDs("db/127.0.1.1")
	if got := turns(t, d.frontend("old").Listen, 1); got != "127.0.1.1" {
		t.Errorf("one backend: got %s", got)
	}
	d.mustReload(text(two))
	d.awaitIDs("db/127.0.1.2")
	eventually(t, "the answer of the new server for one backend", func() bool {
		return turns(t, d.frontend("old").Listen, 1) == "127.0.1.2"
	})
}

// resolve_interval is live: it decides when a change is noticed.
func TestResolveIntervalIsLive(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1")
	text := func(interval string) string {
		return resolving(head+frontendText("web", free, "p")+
			poolText("p", fmt.Sprintf("resolve_interval = %q", interval), group("db", "db.test:"+f.port, "all")), s)
	}
	d := startDaemon(t, text("1h"))
	d.awaitIDs("db/127.0.1.1")
	asked := s.asked("db.test")
	s.at("db.test", "127.0.1.1", "127.0.1.2")
	turns(t, d.frontend("web").Listen, 20)
	if n := s.asked("db.test"); n != asked {
		t.Errorf("asked %d times more within an hour", n-asked)
	}
	d.mustReload(text("50ms"))
	d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
	// With the default so many would take longer than eventually waits.
	eventually(t, "more look-ups", func() bool { return s.asked("db.test") >= asked+10 })
}

// B161: however long the interval, a failed dial finds the new address.
func TestDiscoverAfterFailedDial(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1")
	text := strings.Replace(poolText("p", `resolve_interval = "1h"`, group("db", "db.test:"+f.port, "all")), "[pool.health]\n", "[pool.health]\nprobe = \"none\"\n", 1)
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+text, s))
	d.awaitIDs("db/127.0.1.1")
	f.all["127.0.1.1"].Stop()
	s.at("db.test", "127.0.1.2")
	began := time.Now()
	eventually(t, "an answer", func() bool {
		_, err := visit(d.frontend("web").Listen)
		return err == nil
	})
	t.Logf("reached after %v", time.Since(began))
	d.awaitIDs("db/127.0.1.2")
}

// SRV records bring ports, weights and tiers; the weights follow the records.
func TestDiscoverSRV(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2", "127.0.1.3")
	var port uint16
	fmt.Sscan(f.port, &port)
	s := serveNames(t, true)
	for ip, name := range map[string]string{"127.0.1.1": "a.test", "127.0.1.2": "b.test", "127.0.1.3": "c.test"} {
		s.at(name, ip)
	}
	s.service("_db._tcp.test", record("a.test", port, 10, 10), record("b.test", port, 10, 30), record("c.test", port, 20, 0))
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+
		poolText("p", often, group("db", "_db._tcp.test", "srv")), s))
	id := func(ip string) string { return "db/" + ip + ":" + f.port }
	d.awaitIDs(id("127.0.1.1") + " " + id("127.0.1.2") + " " + id("127.0.1.3"))
	weights := func() string {
		return fmt.Sprint(d.backend("p", id("127.0.1.1")).Weight, d.backend("p", id("127.0.1.2")).Weight, d.backend("p", id("127.0.1.3")).Weight)
	}
	if got := weights(); got != "1 3 1" {
		t.Errorf("got weights %s", got)
	}
	// The second priority serves when the first is gone, and only then.
	serves := func(when string, first, second, third int) {
		t.Helper()
		got := turns(t, d.frontend("web").Listen, 4)
		for ip, n := range map[string]int{"127.0.1.1": first, "127.0.1.2": second, "127.0.1.3": third} {
			if strings.Count(got, ip) != n {
				t.Errorf("%s: got %s", when, got)
			}
		}
	}
	serves("with all up", 1, 3, 0)
	if c := d.backend("p", id("127.0.1.3")); c.Backup != 1 || c.InUse {
		t.Errorf("got %+v", c)
	}
	order := func(state string) {
		for _, ip := range []string{"127.0.1.1", "127.0.1.2"} {
			d.must("PATCH", "/backends/"+url.PathEscape(id(ip)), fmt.Sprintf(`{"state": %q}`, state))
		}
	}
	order("maint")
	serves("without the first priority", 0, 0, 4)
	order("ready")
	serves("with it back", 1, 3, 0)
	s.service("_db._tcp.test", record("a.test", port, 10, 50), record("b.test", port, 10, 50))
	d.awaitIDs(id("127.0.1.1") + " " + id("127.0.1.2"))
	if got := fmt.Sprint(d.backend("p", id("127.0.1.1")).Weight, d.backend("p", id("127.0.1.2")).Weight); got != "1 1" {
		t.Errorf("got weights %s", got)
	}
	d.await("the weights in the log", "found backends changed")
	if got, want := fmt.Sprint(d.lines("found backends changed")[0]["changes"]), "backend "+id("127.0.1.2")+" weight 3 -> 1"; !strings.Contains(got, want) {
		t.Errorf("the log says %s, want %s", got, want)
	}
	answered := turns(t, d.frontend("web").Listen, 4)
	if strings.Count(answered, "127.0.1.1") != 2 || strings.Count(answered, "127.0.1.2") != 2 {
		t.Errorf("got %s", answered)
	}
	if n := d.names()[0]; n.Resolve != "srv" || len(n.Found) != 2 {
		t.Errorf("got %+v", n)
	}
}

// A large answer arrives whole, and is bounded; by UDP it comes after a cut one.
func TestDiscoverManyAddresses(t *testing.T) {
	t.Parallel()
	for _, tcp := range []bool{true, false} {
		s := serveNames(t, tcp)
		var addrs []string
		for i := range 300 {
			addrs = append(addrs, fmt.Sprintf("127.9.%d.%d", i/200, 1+i%200))
		}
		want := 256
		if !tcp {
			addrs, want = addrs[:25], 25 // of 28 that fit into 512 bytes
		}
		s.at("db.test", addrs...)
		pools := strings.Replace(poolText("p", often, group("db", "db.test:1", "all")), "[pool.health]\n", "[pool.health]\nprobe = \"none\"\n", 1)
		d := startDaemon(t, resolving(head+frontendText("web", free, "p")+pools, s))
		eventually(t, "all addresses", func() bool { return len(strings.Fields(d.ids("p"))) == want })
		if n := d.names()[0]; len(n.Found) != want || n.LeftOut != len(addrs)-want {
			t.Errorf("found %d, left out %d", len(n.Found), n.LeftOut)
		}
	}
}

// What others have, and where the process itself listens, is not used, and that is
// said once.
func TestDiscoverSkips(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2", "127.0.1.4")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
	s.at("twin.test", "127.0.1.2")
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+frontendText("circle", "127.0.1.3:"+f.port, "p")+
		poolText("p", often, "plain=127.0.1.1:"+f.port, group("db", "db.test:"+f.port, "all"), group("twin", "twin.test:"+f.port, "all")), s))
	d.awaitIDs("db/127.0.1.2 db/127.0.1.4 plain")
	asked := s.asked("db.test")
	eventually(t, "more look-ups", func() bool { return s.asked("db.test") > asked+6 })
	reasons := map[string]int{}
	for _, line := range d.lines("found address not used") {
		reasons[fmt.Sprint(line["backend"], " ", line["address"], " ", line["reason"])]++
	}
	for _, want := range []string{
		"db 127.0.1.1:" + f.port + " it is the address of backend plain already",
		"db 127.0.1.3:" + f.port + " it is where frontend circle of this process listens",
		"twin 127.0.1.2:" + f.port + " it is the address of backend db/127.0.1.2 already",
	} {
		if reasons[want] != 1 {
			t.Errorf("%q was said %d times; all: %v", want, reasons[want], reasons)
		}
	}
	names := d.names()
	if len(names) != 2 || len(names[0].Skipped) != 2 || len(names[1].Skipped) != 1 {
		t.Errorf("got %+v", names)
	}
	for _, body := range []string{
		fmt.Sprintf(`{"id": "db/127.0.1.2", "address": "127.0.1.9:%s"}`, f.port),
		fmt.Sprintf(`{"id": "mine", "address": "127.0.1.2:%s"}`, f.port),
	} {
		if status, answer := d.ask("POST", "/backends", body); status != 409 {
			t.Errorf("POST %s: got %d %s, want 409", body, status, answer)
		}
	}
	// What the API added stands; what is found later at its address does not.
	s.at("db.test", "127.0.1.2")
	d.awaitIDs("db/127.0.1.2 plain")
	d.must("POST", "/backends", fmt.Sprintf(`{"id": "mine", "address": "127.0.1.4:%s"}`, f.port))
	s.at("db.test", "127.0.1.2", "127.0.1.4")
	eventually(t, "it is skipped", func() bool { return len(d.names()[0].Skipped) == 1 })
	if got := d.ids("p"); got != "db/127.0.1.2 mine plain" {
		t.Errorf("got %s", got)
	}
	d.must("DELETE", "/backends/mine", "")
	d.awaitIDs("db/127.0.1.2 db/127.0.1.4 plain")
}

// The sessions of an address that left its name are those of a removed backend.
func TestDiscoverAndSessions(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	for _, policy := range []string{"drain", "close"} {
		s := serveNames(t, true)
		s.at("db.test", "127.0.1.1")
		d := startDaemon(t, resolving(head+frontendText("web", free, "p")+
			poolText("p", often+fmt.Sprintf("on_remove = %q", policy), group("db", "db.test:"+f.port, "all")), s))
		d.awaitIDs("db/127.0.1.1")
		c, _ := open(t, d.frontend("web").Listen)
		s.ail("", "servfail")
		eventually(t, "failures", func() bool { return d.names()[0].Error != "" })
		echoes(t, c)
		s.ail("", "")
		s.at("db.test", "127.0.1.2")
		d.awaitIDs("db/127.0.1.2")
		if policy == "close" {
			wantEnd(t, c)
			continue
		}
		echoes(t, c)
		if b := d.backend("p", "db/127.0.1.1"); b.State != "removing" || b.Active != 1 {
			t.Errorf("got %+v", b)
		}
		s.at("db.test", "127.0.1.2", "127.0.1.1")
		d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
		if b := d.backend("p", "db/127.0.1.1"); b.Active != 1 || b.Total != 1 {
			t.Errorf("it did not continue: got %+v", b)
		}
		echoes(t, c)
	}
}

// What lets TCP to the server in and nothing out costs the first look-up; the next
// is by UDP.
func TestDiscoverWhereTCPIsDropped(t *testing.T) {
	t.Parallel()
	s := serveNames(t, true)
	s.deaf = true
	s.at("db.test", "127.0.1.1")
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+poolText("p", often, group("db", "db.test:1", "all")), s))
	d.awaitIDs("db/127.0.1.1")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overTCP == 0 {
		t.Error("nothing was asked by TCP")
	}
}
