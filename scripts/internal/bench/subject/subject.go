//go:build linux

// Package subject starts what is measured: Sluice on each of its engines, the
// balancers that it is compared with, the plainest balancer in Go, and none.
//
// All get the same services: a name, the same backends, a listen address of
// their own. They run in the foreground with as many threads or workers as there
// are cores, log nothing that Sluice does not, and probe nothing. A subject that
// cannot run here is Unavailable, with the reason.
package subject

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/scripts/internal/bench/proc"
)

// The names of the subjects. Self is the first subject once more, in a process
// of its own: what the comparison with it shows is noise.
const (
	Epoll   = "epoll"
	Copy    = "copy"
	Base    = "base"
	HAProxy = "haproxy"
	Nginx   = "nginx"
	IOCopy  = "plain"
	Direct  = "direct"
	Self    = "self"
)

// Names are the subjects in the order of the tables.
var Names = []string{Epoll, Copy, Base, HAProxy, Nginx, IOCopy, Direct}

// Sluice are the subjects that are Sluice: those that the bars are for.
var Sluice = []string{Epoll, Copy, Base}

// Unavailable is why a subject cannot run here.
type Unavailable string

// Error returns the reason.
func (u Unavailable) Error() string { return string(u) }

// patience bounds a start, which takes milliseconds.
const patience = 10 * time.Second

// Setup is what the subjects of one scenario have in common.
type Setup struct {
	Group    *proc.Group
	Dir      string              // for configurations and logs
	Backends map[string][]string // by service
	User     *proc.User          // who the subject runs as; nil: the benchmark's own
	Cores    int
	Files    uint64 // the limit of descriptors
	Feature  Feature
	Paths    Paths
}

// Paths are the programs; those that are not here are empty.
type Paths struct {
	Sluice, Base, HAProxy, Nginx string
	NginxModule                  string
	Bench                        string // this program
}

// Running is a subject that serves.
type Running struct {
	Name      string
	Addresses map[string][]string // where to connect to, by service
	Process   *proc.Process       // nil: there is none in between
	Admin     string              // socket of the admin side; empty: it is off
}

// Stop ends the subject.
func (r *Running) Stop() error {
	if r.Process == nil {
		return nil
	}
	return r.Process.End()
}

// Start starts a subject and waits until it serves.
func Start(ctx context.Context, name string, s Setup) (*Running, error) {
	if name == Direct {
		return &Running{Name: name, Addresses: s.Backends}, nil
	}
	var err error
	// Another program may take a port between its choice and its use.
	for range 5 {
		var r *Running
		r, err = try(ctx, name, s)
		if err == nil {
			return r, nil
		}
		if errors.As(err, new(Unavailable)) || ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start %s: %w", name, err)
}

// try starts a subject on ports that seem to be free.
func try(ctx context.Context, name string, s Setup) (*Running, error) {
	dir, err := s.directory(name)
	if err != nil {
		return nil, err
	}
	r := &Running{Name: name, Addresses: map[string][]string{}}
	var services []Service
	var addresses []string
	for _, service := range slices.Sorted(maps.Keys(s.Backends)) {
		listen, _, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		services = append(services, Service{service, listen, s.Backends[service]})
		r.Addresses[service] = []string{listen}
		addresses = append(addresses, listen)
	}
	c, err := s.command(name, dir, services)
	if err != nil {
		return nil, err
	}
	c.Dir, c.User, c.Log = dir, s.User, filepath.Join(dir, "log")
	if s.Feature == Scraped && slices.Contains(Sluice, name) {
		r.Admin = filepath.Join(dir, adminSocket)
	}
	if r.Process, err = s.Group.Start(c); err != nil {
		return nil, err
	}
	if err := Await(ctx, r.Process, addresses...); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// directory makes a directory that the subject's user may write to.
func (s Setup) directory(name string) (string, error) {
	dir, err := os.MkdirTemp(s.Dir, name+"-")
	if err != nil {
		return "", fmt.Errorf("directory of %s: %w", name, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fmt.Errorf("directory of %s: %w", name, err)
	}
	if s.User != nil {
		if err := os.Chown(dir, int(s.User.UID), int(s.User.GID)); err != nil {
			return "", fmt.Errorf("directory of %s: %w", name, err)
		}
	}
	return dir, nil
}

// FreeAddress returns an address that nobody listens at, and its port, which is
// below those that the system gives to connections.
func FreeAddress() (address, port string, err error) {
	for range 50 {
		port = fmt.Sprint(10_000 + rand.IntN(20_000))
		address = net.JoinHostPort("127.0.0.1", port)
		var l net.Listener
		if l, err = net.Listen("tcp4", address); err == nil {
			return address, port, l.Close()
		}
	}
	return "", "", fmt.Errorf("find a free port: %w", err)
}

// Await waits until a process accepts at all of the addresses.
func Await(ctx context.Context, p *proc.Process, addresses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, address := range addresses {
		for {
			c, err := net.Dial("tcp4", address)
			if err == nil {
				c.Close()
				break
			}
			select {
			case <-p.Done():
				return p.Alive()
			case <-ctx.Done():
				return fmt.Errorf("nothing listens at %s: %w", address, ctx.Err())
			case <-tick.C:
			}
		}
	}
	return p.Alive()
}

// command writes the subject's configuration and says how to start it.
func (s Setup) command(name, dir string, services []Service) (proc.Command, error) {
	// Two descriptors a session, the pipes, and some to spare.
	sessions := min((int(s.Files)-2*pipes-200)/2, 40_000)
	write := func(file, text string) (string, error) {
		path := filepath.Join(dir, file)
		return path, os.WriteFile(path, []byte(text), 0o644)
	}
	switch name {
	case Epoll, Copy, Base:
		engine, path := name, s.Paths.Sluice
		if name == Base {
			engine, path = "auto", s.Paths.Base
		}
		file, err := write("config.toml", sluiceConfig(engine, s.Feature, dir, services))
		if err != nil {
			return proc.Command{}, err
		}
		if err := s.check(name, path, file); err != nil {
			return proc.Command{}, err
		}
		return proc.Command{Path: path, Args: []string{"run", "-c", file}}, nil
	case HAProxy:
		file, err := write("haproxy.cfg", haproxyConfig(s.Cores, sessions, services))
		return proc.Command{Path: s.Paths.HAProxy, Args: []string{"-db", "-f", file}}, missing(err, name, s.Paths.HAProxy)
	case Nginx:
		file, err := write("nginx.conf", nginxConfig(s.Paths.NginxModule, s.Cores, sessions, services))
		args := []string{"-e", "stderr", "-p", dir, "-c", file}
		return proc.Command{Path: s.Paths.Nginx, Args: args}, missing(err, "nginx with its stream module", s.Paths.Nginx, s.Paths.NginxModule)
	case IOCopy:
		return proc.Command{Path: s.Paths.Bench, Args: append([]string{"plain"}, plainArgs(services)...)}, nil
	}
	return proc.Command{}, Unavailable("there is no subject " + name)
}

// missing returns err, or that a program is not here.
func missing(err error, name string, paths ...string) error {
	for _, path := range paths {
		if path == "" {
			return Unavailable(name + " is not installed")
		}
	}
	return err
}

// check asks Sluice whether it would run with that configuration.
func (s Setup) check(name, path, file string) error {
	if path == "" {
		return Unavailable("no program was given for " + name)
	}
	p, err := s.Group.Start(proc.Command{Path: path, Args: []string{"check", "-c", file}, Log: file + ".check"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.Wait(ctx); err != nil {
		reason := strings.ReplaceAll(strings.TrimSpace(p.Printed(600)), file, filepath.Base(file))
		return Unavailable("sluice check refuses it: " + reason)
	}
	return nil
}
