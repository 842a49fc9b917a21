package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// A reload does not wait for a server that hangs: not for names that are known, and
// for new ones not long.
func TestReloadWhileLookUpsHang(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1")
	text := func(keys string, more ...string) string {
		return resolving(head+frontendText("web", free, "p")+
			poolText("p", often+keys, append(more, group("db", "db.test:"+f.port, "all"))...), s)
	}
	d := startDaemon(t, text(""))
	d.awaitIDs("db/127.0.1.1")
	s.ail("", "silence")
	asked := s.asked("db.test")
	eventually(t, "a look-up that hangs", func() bool { return s.asked("db.test") > asked })
	d.mustReload(text("max_failures = 5\n"))
	if changes := d.mustReload(text("max_failures = 5\n", "plain=127.0.1.2:"+f.port, group("new", "new.test:1", "all"))); !slices.Contains(changes, "pool p: name new added (new.test:1)") {
		t.Errorf("got %q", changes)
	}
	d.awaitIDs("db/127.0.1.1 plain")
	if got := d.reasons("db/127.0.1.1", "up"); len(got) != 0 {
		t.Errorf("a backend that was there came again: %q", got)
	}
	s.at("new.test", "127.0.1.2")
	s.ail("", "")
	d.awaitIDs("db/127.0.1.1 new/127.0.1.2 plain")
}

// A reload that makes one backend of a name all of its addresses, and back, refuses
// nobody: it uses the first answer at once.
func TestReloadToDiscoveryAndBack(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1", "127.0.1.2")
	text := func(entry string) string {
		return resolving(terse+frontendText("web", free, "p")+poolText("p", often, entry), s)
	}
	d := startDaemon(t, text("db=db.test:"+f.port))
	l := startLoad(d.frontend("web").Listen, 2)
	for range 3 {
		changes := d.mustReload(text(group("db", "db.test:"+f.port, "all")))
		for _, want := range []string{
			"pool p: backend db removed (db.test:" + f.port + ")",
			"pool p: backend db/127.0.1.1 added (127.0.1.1:" + f.port + "), found under db.test",
			"pool p: name db added (db.test:" + f.port + ")",
		} {
			if !slices.Contains(changes, want) {
				t.Errorf("no %q in %q", want, changes)
			}
		}
		if got := d.ids("p"); got != "db/127.0.1.1 db/127.0.1.2" {
			t.Errorf("got %s at once", got)
		}
		d.mustReload(text("db=db.test:" + f.port))
	}
	l.stop(t)
	gone := append(d.reasons("db/127.0.1.1", "removed"), d.reasons("db/127.0.1.1", "removing")...)
	if !slices.Contains(gone, "removed from the file") {
		t.Errorf("got %q", gone)
	}
}

// A plan shows what names stand for, with those that only the new file has, and
// does nothing.
func TestPlanWithNames(t *testing.T) {
	t.Parallel()
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1")
	s.at("new.test", "127.0.1.2")
	text := func(entries ...string) string {
		return resolving(head+frontendText("web", free, "p")+poolText("p", often, entries...), s)
	}
	d := startDaemon(t, text(group("db", "db.test:1", "all")))
	d.awaitIDs("db/127.0.1.1")
	var plan reloadAnswer
	body := d.must("POST", "/reload?dry_run=true", text(group("db", "db.test:2", "all")+"\nsend_proxy = \"v2\"", group("new", "new.test:1", "all"), group("no", "no.test:1", "all")))
	if err := json.Unmarshal([]byte(body), &plan); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pool p: backend db/127.0.1.1 removed (127.0.1.1:1)",
		"pool p: backend db/127.0.1.1 added (127.0.1.1:2), found under db.test",
		"pool p: backend new/127.0.1.2 added (127.0.1.2:1), found under new.test",
		"pool p: name db address db.test:1 -> db.test:2",
		"pool p: name db send_proxy off -> v2",
	} {
		if !slices.Contains(plan.Changes, want) {
			t.Errorf("no %q in %q", want, plan.Changes)
		}
	}
	if want := "pool p: what backend no stands for: nothing was found under no.test yet"; !slices.Contains(plan.Unknown, want) {
		t.Errorf("no %q in %q", want, plan.Unknown)
	}
	if got := d.ids("p"); got != "db/127.0.1.1" || len(d.names()) != 1 {
		t.Errorf("got %s and names %+v", got, d.names())
	}
}

// What the API changed of found backends outlives their absence, restarts, and
// restarts without a server, and the state file.
func TestDiscoverKeepsWhatTheAPIChanged(t *testing.T) {
	t.Parallel()
	f := muster(t, "127.0.1.1", "127.0.1.2", "127.0.1.3")
	s := serveNames(t, true)
	s.at("db.test", "127.0.1.1", "127.0.1.2", "127.0.1.3")
	d := startDaemon(t, resolving(head+frontendText("web", free, "p")+
		poolText("p", often, group("db", "db.test:"+f.port, "all")), s))
	all := "db/127.0.1.1 db/127.0.1.2 db/127.0.1.3"
	d.awaitIDs(all)
	d.must("PATCH", "/backends/db%2F127.0.1.1", `{"state": "drain"}`)
	d.must("PATCH", "/backends/db%2F127.0.1.2", `{"weight": 7}`)
	d.must("DELETE", "/backends/db%2F127.0.1.3", "")
	d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
	want := func(when string) {
		t.Helper()
		d.awaitIDs("db/127.0.1.1 db/127.0.1.2")
		a, b := d.backend("p", "db/127.0.1.1"), d.backend("p", "db/127.0.1.2")
		if a.State != "drain" || b.Weight != 7 || fmt.Sprint(b.Overridden) != "[weight]" || b.Origin != "dns" {
			t.Errorf("%s: got %+v and %+v", when, a, b)
		}
		if got := turns(t, d.frontend("web").Listen, 4); got != strings.Repeat("127.0.1.2", 4) {
			t.Errorf("%s: got %s", when, got)
		}
		if _, out, _ := d.diff(); strings.Count(out, "\n") != 3 {
			t.Errorf("%s: diff says %q", when, out)
		}
	}
	want("at once")
	s.at("db.test", "127.0.1.2", "127.0.1.3")
	d.awaitIDs("db/127.0.1.2")
	s.at("db.test", "127.0.1.1", "127.0.1.2", "127.0.1.3")
	want("after an absence")
	d.crash()
	want("after a restart")

	s.at("db.test", "127.0.1.2", "127.0.1.3")
	d.awaitIDs("db/127.0.1.2")
	d.crash()
	d.awaitIDs("db/127.0.1.2")
	s.at("db.test", "127.0.1.1", "127.0.1.2", "127.0.1.3")
	want("after a restart in its absence")

	s.ail("", "nxdomain")
	d.crash()
	d.awaitIDs("")
	d.must("PATCH", "/pools/p", `{"strategy": "least_connections"}`) // both write the state file
	d.must("PATCH", "/pools/p", `{"strategy": "round_robin"}`)
	d.crash()
	s.ail("", "")
	want("after two restarts without a server")

	// As with an entry of the file: what is deleted is forgotten once the name does
	// not have it.
	s.at("db.test", "127.0.1.2")
	d.awaitIDs("db/127.0.1.2")
	eventually(t, "it is forgotten", func() bool { return len(d.view().Pools[0].DeletedByAPI) == 0 })
	d.must("DELETE", "/overrides", "")
	s.at("db.test", "127.0.1.1", "127.0.1.2", "127.0.1.3")
	d.awaitIDs(all)
	if a := d.backend("p", "db/127.0.1.1"); a.State != "up" {
		t.Errorf("after all was forgotten: got %+v", a)
	}
	d.crash()
	d.awaitIDs(all)
	if _, err := os.Stat(d.stateFile()); !os.IsNotExist(err) {
		t.Errorf("the state file is left: %v", err)
	}
}
