//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// faults are the kinds of trouble, each caused again and again.
func (c *chaos) faults() map[string]func() {
	return map[string]func(){
		"backend killed":  c.killBackend,
		"reload":          c.reloadSomething,
		"API change":      c.changeSomething,
		"sessions killed": c.killSessions,
		"rebalance":       c.rebalance,
		"process stopped": c.stall,
	}
}

// killBackend takes a backend away for some time.
func (c *chaos) killBackend() {
	b := c.backends[c.draw(len(c.backends))]
	b.fall()
	time.Sleep(time.Duration(c.draw(int(300 * time.Millisecond)))) // how long it is gone
	b.rise()
}

// reloadSomething makes another configuration current, or tries a broken one.
func (c *chaos) reloadSomething() {
	n := c.draw(1 << 16)
	text := c.text(n)
	if n%5 == 0 {
		text = strings.Replace(text, "pool =", "pol =", 1)
	}
	if n%7 == 0 {
		text = text[:len(text)-n%100]
	}
	if n%3 == 0 {
		c.write(text) // the watch finds it
		return
	}
	c.reload(text)
}

// text is a configuration whose choices are the bits of n; that of 0 is the one
// to end with.
func (c *chaos) text(n int) string {
	bit := func(i int) bool { return n>>i&1 != 0 }
	choose := func(i int, zero, one string) string {
		if bit(i) {
			return one
		}
		return zero
	}
	var backends []string
	for i, b := range c.backends {
		if i == 3 && bit(0) {
			continue // removed
		}
		more := fmt.Sprintf("\nweight = %d", 1+n>>(2*i)&3)
		if i == 2 {
			more += fmt.Sprintf("\nmax_sessions = %d", limitedSize)
		}
		backends = append(backends, b.name+"="+b.addr+more)
	}
	keys := []string{
		"strategy = " + choose(1, `"round_robin"`, choose(0, `"least_connections"`, choose(2, `"random_two"`, `"source_hash"`))),
		"all_down = " + choose(2, `"refuse"`, `"try"`),
		"on_down = " + choose(3, `"keep"`, `"close"`),
		"on_remove = " + choose(4, `"drain"`, `"close"`),
		"drain_timeout = " + choose(5, `"0s"`, `"50ms"`),
		"queue_max = " + choose(6, "0", "4"),
		"slow_start = " + choose(7, `"0s"`, `"1s"`),
		"send_proxy = " + choose(12, `"off"`, choose(13, `"v1"`, `"v2"`)),
	}
	text := "[process]\nengine = \"" + c.engine + "\"\n" + head +
		frontendText("one", c.listen[0], "p", "idle_timeout = "+choose(8, `"0s"`, `"300ms"`),
			"max_sessions_per_client = "+choose(9, "0", "2"))
	if !bit(10) {
		text += frontendText("two", c.listen[believing], "p", "half_close_timeout = "+choose(11, `"1m"`, `"100ms"`), "max_session_age = "+choose(5, `"0s"`, `"200ms"`),
			`proxy_protocol = "accept"`, `proxy_protocol_from = ["127.0.0.0/8"]`, `proxy_header_timeout = "1m"`,
			"max_rate_per_client = "+choose(9, "0", "5"))
	}
	if bit(2) {
		keys = append(keys, "panic_threshold = "+choose(15, "0", "75"))
	}
	if bit(6) {
		keys = append(keys, "hold_timeout = "+choose(7, `"300ms"`, `"0s"`), "release_rate = "+choose(8, "200", "0"))
	}
	if !bit(2) {
		keys = append(keys, "single = "+choose(15, "false", "true"))
	}
	outliers := fmt.Sprintf("[pool.outliers]\ndetect = %v\n%s", bit(14) || bit(0),
		"interval = \"100ms\"\nmin_sessions = 1\nfailure_share = 10\ndial_factor = 1\nmax_ejected = 75\neject_for = \"50ms\"\neject_max = \"1s\"\n")
	return text + strings.Replace(poolText("p", strings.Join(keys, "\n"), backends...), "[pool.health]\n", outliers+"[pool.health]\n", 1)
}

// changeSomething changes the pool by the API.
func (c *chaos) changeSomething() {
	b := c.backends[c.draw(len(c.backends))]
	path := "/backends/" + b.name + "?pool=p"
	switch c.draw(8) {
	case 0:
		c.ask("DELETE", path, "")
	case 1:
		c.ask("POST", "/backends", fmt.Sprintf(`{"pool":"p","id":%q,"address":%q}`, b.name, b.addr))
	case 2:
		c.ask("PATCH", path, fmt.Sprintf(`{"weight":%d}`, c.draw(4)))
	case 3:
		c.ask("PATCH", path, `{"state":"drain"}`)
	case 4:
		c.ask("PATCH", path, `{"state":"maint"}`)
	case 5:
		c.ask("PATCH", path, `{"state":"ready","weight":1}`)
	case 6:
		c.ask("PATCH", path, `{"ejected":false}`)
	case 7:
		c.ask("PATCH", "/pools/p", `{"strategy":"least_connections"}`)
	}
}

// killSessions ends one session, or those of a backend.
func (c *chaos) killSessions() {
	var list struct{ Sessions []struct{ ID string } }
	_, body := c.ask("GET", "/sessions?limit=5", "")
	if json.Unmarshal([]byte(body), &list) != nil || len(list.Sessions) == 0 {
		return
	}
	if c.draw(4) == 0 {
		c.ask("DELETE", "/sessions?backend="+c.backends[0].name, "")
		return
	}
	c.ask("DELETE", "/sessions/"+url.PathEscape(list.Sessions[0].ID), "")
}

// rebalance moves sessions on, or stops that.
func (c *chaos) rebalance() {
	if c.draw(4) == 0 {
		c.ask("DELETE", "/pools/p/rebalance", "")
		return
	}
	c.ask("POST", "/pools/p/rebalance", fmt.Sprintf(`{"rate":%d,"target":%d,"dry_run":%v}`, 1+c.draw(200), c.draw(20), c.draw(4) == 0))
}

// forget undoes what the API changed.
func (c *chaos) forget() {
	if status, body := c.ask("DELETE", "/overrides", ""); status != 200 {
		c.t.Fatalf("forget: got %d %s", status, body)
	}
}

// goroutines returns how many the process runs.
func (c *chaos) goroutines() (n int) {
	_, body := c.ask("GET", "/metrics", "")
	for line := range strings.Lines(body) {
		if _, err := fmt.Sscanf(line, "go_goroutines %d", &n); err == nil {
			return n
		}
	}
	c.t.Fatal("no go_goroutines in /metrics")
	return 0
}
