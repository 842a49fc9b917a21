//go:build linux

package subject

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Service is one address that a balancer listens at, and what is behind it.
type Service struct {
	Name     string
	Listen   string
	Backends []string
}

// Feature is something of Sluice that can be on or off.
type Feature string

// The features.
const (
	Plain       Feature = ""             // nothing that is not always on
	IdleTimeout Feature = "idle timeout" // of a frontend, far too long to strike
	AccessLog   Feature = "access log"   // a record of every session
	Limits      Feature = "limits"       // of process, frontend and client, with a deny list; never reached
	Scraped     Feature = "a scrape a second"
)

// adminSocket is where the admin side listens if it is on, in the directory of
// the subject.
const adminSocket = "admin.sock"

// sluiceConfig leaves out what the peers do not do either: probes, the admin
// side, and session records.
func sluiceConfig(engine string, feature Feature, dir string, services []Service) string {
	access, admin, process, frontend := "off", "", "", ""
	switch feature {
	case AccessLog:
		access = "all"
	case IdleTimeout:
		frontend = "idle_timeout = \"10m\"\n"
	case Limits:
		process, frontend = "max_sessions = 50000\n", limits()
	case Scraped:
		admin = "unix:" + filepath.Join(dir, adminSocket)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "[process]\nengine = %q\ndrain_timeout = \"0s\"\n%s", engine, process)
	fmt.Fprintf(&b, "\n[log]\nlevel = \"info\"\nformat = \"json\"\naccess = %q\n\n[admin]\nlisten = %q\n", access, admin)
	for _, s := range services {
		fmt.Fprintf(&b, "\n[[frontend]]\nname = %q\nlisten = %q\npool = %q\n%s", s.Name, s.Listen, s.Name, frontend)
		fmt.Fprintf(&b, "\n[[pool]]\nname = %q\n\n  [pool.health]\n  probe = \"none\"\n", s.Name)
		for _, address := range s.Backends {
			fmt.Fprintf(&b, "\n  [[pool.backend]]\n  address = %q\n", address)
		}
	}
	return b.String()
}

// limits are keys of a frontend that let everybody in, after a look.
func limits() string {
	var b strings.Builder
	b.WriteString("max_sessions = 40000\nmax_sessions_per_client = 30000\nmax_rate_per_client = 1000000\ndeny = [")
	for i := range 1000 {
		fmt.Fprintf(&b, "\"10.%d.%d.0/24\", ", i/250, i%250)
	}
	b.WriteString("]\n")
	return b.String()
}

// pipes is how many HAProxy may hold, two descriptors each: more than the
// streams of any scenario. By itself it would want one for every fourth session,
// and the descriptors for them.
const pipes = 400

// haproxyConfig is what its manual suggests for TCP, with splice where HAProxy
// thinks that it pays.
func haproxyConfig(threads, sessions int, services []Service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "global\n  nbthread %d\n  maxconn %d\n  maxpipes %d\n", threads, sessions, pipes)
	fmt.Fprintf(&b, "\ndefaults\n  mode tcp\n  option splice-auto\n  maxconn %d\n", sessions)
	fmt.Fprintf(&b, "  timeout connect 2s\n  timeout client 10m\n  timeout server 10m\n")
	for _, s := range services {
		fmt.Fprintf(&b, "\nlisten %s\n  bind %s\n  balance roundrobin\n", s.Name, s.Listen)
		for i, address := range s.Backends {
			fmt.Fprintf(&b, "  server b%d %s\n", i, address)
		}
	}
	return b.String()
}

// nginxConfig gives every worker room for all sessions, two connections each:
// the kernel does not share them out evenly.
func nginxConfig(module string, workers, sessions int, services []Service) string {
	var b strings.Builder
	fmt.Fprintf(&b, "load_module %s;\ndaemon off;\npid nginx.pid;\nerror_log stderr error;\n", module)
	fmt.Fprintf(&b, "worker_processes %d;\nworker_rlimit_nofile %d;\n", workers, 2*sessions+100)
	fmt.Fprintf(&b, "events {\n  worker_connections %d;\n}\n\nstream {\n", 2*sessions+50)
	for _, s := range services {
		fmt.Fprintf(&b, "  upstream %s {\n", s.Name)
		for _, address := range s.Backends {
			fmt.Fprintf(&b, "    server %s;\n", address)
		}
		fmt.Fprintf(&b, "  }\n  server {\n    listen %s;\n    proxy_pass %s;\n    proxy_timeout 10m;\n  }\n", s.Listen, s.Name)
	}
	b.WriteString("}\n")
	return b.String()
}

// plainArgs is what ParsePlain reads.
func plainArgs(services []Service) (args []string) {
	for _, s := range services {
		args = append(args, s.Name+"="+s.Listen+"="+strings.Join(s.Backends, ","))
	}
	return args
}

// ParsePlain reads the arguments of the plain balancer's process.
func ParsePlain(args []string) (services []Service, err error) {
	for _, arg := range args {
		parts := strings.Split(arg, "=")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%q is not name=listen=backend,backend", arg)
		}
		services = append(services, Service{parts[0], parts[1], strings.Split(parts[2], ",")})
	}
	return services, nil
}
