package demo

import (
	"fmt"
	"strings"
)

// The names of the demo's pools; its frontend is called like the first.
const (
	tcpPool = "demo-tcp"
	webPool = "demo-http"
)

// head is the part of the configuration that no port appears in. The log is
// quiet so that the show can be read.
const head = `
[process]
drain_timeout = "1s"

[log]
level = "error"

[admin]
listen = "127.0.0.1:0"

[admin.proxy]
pool = "` + webPool + `"

[[frontend]]
name = "` + tcpPool + `"
listen = "127.0.0.1:0"
pool = "` + tcpPool + `"
`

// health makes the probes quick enough to watch, and leaves it to them alone to
// take a backend out.
const health = `max_failures = 0

[pool.health]
probe = "tcp"
interval = "300ms"
down_interval = "300ms"
timeout = "200ms"
rise = 2
fall = 2
`

// config returns the text that the balancer is started from.
func (s *show) config() string {
	var t strings.Builder
	t.WriteString(head)
	for _, p := range []struct {
		name     string
		backends []*backend
	}{{tcpPool, s.tcp}, {webPool, s.web}} {
		fmt.Fprintf(&t, "\n[[pool]]\nname = %q\nstrategy = \"round_robin\"\n%s", p.name, health)
		for _, b := range p.backends {
			fmt.Fprintf(&t, "\n[[pool.backend]]\nid = %q\naddress = %q\n", b.name, b.address)
		}
	}
	return t.String()
}
