//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/scripts/internal/bench/load"
	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/subject"
)

// startServices starts the process behind the subjects.
func (b *bench) startServices(ctx context.Context) (serve.Addresses, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to the services: %w", err)
	}
	defer r.Close()
	p, err := b.group.Start(proc.Command{
		Path: b.paths.Bench, Args: []string{roleServices}, Stdout: w, Log: filepath.Join(b.dir, "services.log"),
	})
	w.Close()
	if err != nil {
		return nil, err
	}
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var a serve.Addresses
	if err := json.NewDecoder(r).Decode(&a); err != nil {
		return nil, errors.Join(fmt.Errorf("addresses of the services: %w", err), p.Alive())
	}
	return a, ctx.Err()
}

// servers is how many redis-servers or web servers stand behind the subjects.
const servers = 2

// startServers starts servers of somebody else, on ports that they are given,
// and returns their addresses.
func (b *bench) startServers(ctx context.Context, name string, command func(address, port string) (proc.Command, error)) (all []string, err error) {
	for range servers {
		var address string
		// Another program may take the port between its choice and its use.
		for range 5 {
			if address, err = b.startServer(ctx, name, command); err == nil || ctx.Err() != nil {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		all = append(all, address)
	}
	return all, nil
}

func (b *bench) startServer(ctx context.Context, name string, command func(address, port string) (proc.Command, error)) (string, error) {
	address, port, err := subject.FreeAddress()
	if err != nil {
		return "", err
	}
	c, err := command(address, port)
	if err != nil {
		return "", err
	}
	c.Dir, c.Log = b.dir, filepath.Join(b.dir, name+"-"+port+".log")
	p, err := b.group.Start(c)
	if err != nil {
		return "", err
	}
	if err := subject.Await(ctx, p, address); err != nil {
		return "", errors.Join(err, p.End())
	}
	return address, nil
}

// startRedis starts redis-servers that have the key that is asked for.
func (b *bench) startRedis(ctx context.Context) ([]string, error) {
	all, err := b.startServers(ctx, "redis-server", func(_, port string) (proc.Command, error) {
		return proc.Command{Path: b.redisServer, Args: []string{
			"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--maxclients", "5000",
		}}, nil
	})
	for _, address := range all {
		err = errors.Join(err, load.PrepareRedis(address))
	}
	return all, err
}

// webConfig is a web server that answers from memory, and counts.
const webConfig = `daemon off;
pid nginx-%[2]s.pid;
error_log stderr error;
worker_processes 1;
events {
  worker_connections 2000;
}
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  server {
    listen %[1]s;
    location / { return 200 "hello"; }
    location = /requests { stub_status; }
  }
}
`

// startWeb starts web servers.
func (b *bench) startWeb(ctx context.Context) ([]string, error) {
	return b.startServers(ctx, "nginx", func(address, port string) (proc.Command, error) {
		file := filepath.Join(b.dir, "web-"+port+".conf")
		err := os.WriteFile(file, fmt.Appendf(nil, webConfig, address, port), 0o600)
		return proc.Command{Path: b.paths.Nginx, Args: []string{"-e", "stderr", "-p", b.dir, "-c", file}}, err
	})
}
