//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A primary that becomes a replica is alive and keeps its connections: with
// on_down = "close" those of writers end by the probe alone, with a reset, and come
// back to the new primary; readers, whose pool keeps them, stay.
func TestRoleChangeEndsSessions(t *testing.T) {
	onDaemons(t, func(t *testing.T, process string) {
		servers, login := redisRoles(t)
		text := process + strings.Replace(rolePools(login, addressesOf(servers)...), `name = "primary"`, "name = \"primary\"\non_down = \"close\"", 1)
		d := startDaemon(t, text)
		d.awaitState("primary", "s0", "up")
		d.awaitState("replica", "s1", "up")
		writer, reader := redisSession(t, d.frontend("write").Listen), redisSession(t, d.frontend("read").Listen)
		eventually(t, "both have a session", func() bool { return d.backend("primary", "s0").Active == 1 && d.frontend("read").Active == 1 })

		servers[1].promote(t)
		servers[0].follow(t, servers[1])
		writer.SetReadDeadline(time.Now().Add(patience))
		if data, err := io.ReadAll(writer); len(data) > 0 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the writer saw %q, %v; want a reset", data, err)
		}
		eventually(t, "its line", func() bool {
			return slices.ContainsFunc(d.lines("session"), func(line map[string]any) bool {
				return line["cause"] == "on_down" && line["code"] == "DD" && line["backend"] == "s0" && line["pool"] == "primary"
			})
		})
		d.awaitState("primary", "s1", "up")
		redisDo(t, d.frontend("write").Listen, "set", "kept", "1")
		redisPing(t, reader)
	})
}

// redisSession opens a session that has had an answer.
func redisSession(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	redisPing(t, c)
	return c
}

func redisPing(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "PING\r\n")
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "+PONG\r\n" {
		t.Errorf("got %q, %v; want an answer", got, err)
	}
}
