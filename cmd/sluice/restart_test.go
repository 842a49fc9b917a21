//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"sluice/l4/l4test"
)

// B119: what a reload ends with is what a restart with the same file would.
func TestReloadEndsWhereARestartWould(t *testing.T) {
	t.Parallel()
	a, b, c := l4test.Serve(t, l4test.Tag("A")), l4test.Serve(t, l4test.Tag("B")), l4test.Serve(t, l4test.Tag("C"))
	texts := []string{
		head + frontendText("web", free, "p") + poolText("p", "", "A="+a.Addr, "B="+b.Addr),
		head + frontendText("web", free, "q", "max_sessions = 7", `idle_timeout = "1h"`) + frontendText("more", free, "p") +
			poolText("q", "strategy = \"least_connections\"\nties = \"rotate\"\nall_down = \"try\"", "C="+c.Addr) +
			poolText("p", "max_failures = 9", "B="+b.Addr+"\nweight = 3\nmax_sessions = 5", "A="+a.Addr, "D="+l4test.Refuse(t)),
		"[process]\nmax_sessions = 500\n" + head + "[admin.proxy]\nenabled = false\n" +
			frontendText("other", free, "p") + poolText("p", "", "C="+c.Addr),
	}
	d := startDaemon(t, texts[0])
	for i := range 6 {
		text := texts[(i+1)%len(texts)]
		d.mustReload(text)
		fresh := startDaemon(t, text)
		for _, one := range []*daemon{d, fresh} {
			eventually(t, "every backend was probed", func() bool { return !regexp.MustCompile(`"health":"unknown"`).MatchString(one.status()) })
		}
		if got, want := d.effective(), fresh.effective(); got != want {
			t.Errorf("reload %d: got\n%s\nafter a restart\n%s", i, got, want)
		}
	}
}

func (d *daemon) status() string {
	d.t.Helper()
	_, body := d.ask("GET", "/status", "")
	return body
}

// effective is GET /status without what differs between two processes, or with
// the time. Backends are in the order of the file there; a pool keeps the order
// in which they came.
func (d *daemon) effective() string {
	d.t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(d.status()), &all); err != nil {
		d.t.Fatal(err)
	}
	for _, key := range []string{"generation", "started", "last_reload", "log_dropped", "state_file"} {
		delete(all, key)
	}
	for _, f := range all["frontends"].([]any) {
		keep(f, "name", "pool", "max_sessions")
	}
	for _, p := range all["pools"].([]any) {
		backends := p.(map[string]any)["backends"].([]any)
		for _, b := range backends {
			keep(b, "id", "address", "weight", "max_sessions", "state", "admin", "health", "origin", "overridden")
		}
		slices.SortFunc(backends, func(a, b any) int {
			return slices.Compare([]byte(fmt.Sprint(a)), []byte(fmt.Sprint(b)))
		})
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func keep(object any, keys ...string) {
	for key := range object.(map[string]any) {
		if !slices.Contains(keys, key) {
			delete(object.(map[string]any), key)
		}
	}
}
