//go:build unix

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"sluice/l4/l4test"
)

// answering returns who answers, sorted, each once.
func answering(t *testing.T, address string) string {
	t.Helper()
	names := strings.Split(turns(t, address, 8), "")
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "")
}

// Backups get sessions while too few others are usable, and a session whose dials
// failed on all others, at once.
func TestBackupKeysAreLive(t *testing.T) {
	t.Parallel()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	text := func(keys string, backends ...string) string {
		return head + frontendText("web", free, "p") + unprobed("p", keys, backends...)
	}
	three := []string{"C=" + c.Addr + "\nbackup = 1", "A=" + a.Addr, "B=" + b.Addr}
	d := startDaemon(t, text("", three...))
	web := d.frontend("web").Listen
	if got := answering(t, web); got != "AB" {
		t.Errorf("with both up: got %s", got)
	}
	if in, out := d.backend("p", "A"), d.backend("p", "C"); !in.InUse || out.InUse || out.Backup != 1 {
		t.Errorf("got %+v and %+v", in, out)
	}
	d.mustReload(text("backup_minimum = 3", three...))
	if got := answering(t, web); got != "ABC" {
		t.Errorf("with two of a minimum of three: got %s", got)
	}
	d.mustReload(text("", three...))
	for _, id := range []string{"A", "B"} {
		d.must("PATCH", "/backends/"+id+"?pool=p", `{"state": "drain"}`)
	}
	if got := answering(t, web); got != "C" {
		t.Errorf("with the others drained: got %s", got)
	}
	d.mustReload(text("max_failures = 0", three[0], "D="+l4test.Refuse(t)))
	if got := answering(t, web); got != "C" {
		t.Errorf("with a dead one that stays in rotation: got %s", got)
	}
	d.must("POST", "/backends", fmt.Sprintf(`{"pool": "p", "id": "E", "address": %q, "backup": 2, "zone": "far"}`, b.Addr))
	if s := d.backend("p", "E"); s.Backup != 2 || s.Zone != "far" || s.InUse {
		t.Errorf("added: got %+v", s)
	}
}

// A process in a zone keeps to it, as its own file or its environment says.
func TestZoneKeysAreLive(t *testing.T) {
	t.Parallel()
	a, b := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B"))
	text := func(zone, keys string) string {
		return zone + head + frontendText("web", free, "p") +
			unprobed("p", keys, "A="+a.Addr+"\nzone = \"east\"", "B="+b.Addr+"\nzone = \"west\"")
	}
	d := startDaemonAs(t, text("", ""), func(file string) *exec.Cmd {
		cmd := command("run", "-c", file)
		cmd.Env = append(cmd.Env, "SLUICE_ZONE=west")
		return cmd
	})
	web := d.frontend("web").Listen
	if got := answering(t, web); got != "B" {
		t.Errorf("in the zone of the environment: got %s", got)
	}
	d.mustReload(text("[process]\nzone = \"east\"\n", ""))
	if got := answering(t, web); got != "A" {
		t.Errorf("in the zone of the file: got %s", got)
	}
	d.mustReload(text("[process]\nzone = \"east\"\n", "zone_minimum = 2"))
	if got := answering(t, web); got != "AB" {
		t.Errorf("with one of a minimum of two: got %s", got)
	}
	if s := d.backend("p", "A"); s.Zone != "east" || !s.InUse {
		t.Errorf("got %+v", s)
	}
}
