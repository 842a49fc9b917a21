//go:build unix

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A primary dies under load and a replica takes over: nobody who comes then sees
// more of it than a command that takes longer.
func TestRecipeRedisReplicas(t *testing.T) {
	servers, _ := redisRoles(t)
	d := startRecipe(t, "redis-replicas",
		"0.0.0.0:6379", free, "0.0.0.0:6380", free,
		"10.0.0.11:6379", servers[0].address, "10.0.0.12:6379", servers[1].address, "10.0.0.13:6379", servers[2].address,
		"/etc/sluice/redis.password", writeFile(t, filepath.Join(t.TempDir(), "password"), redisProbePassword+"\n"))
	d.awaitState("redis-primary", "redis-1", "up")
	d.awaitState("redis-replicas", "redis-2", "up")
	d.awaitState("redis-replicas", "redis-1", "down")
	write, read := d.frontend("redis-write").Listen, d.frontend("redis-read").Listen
	redisDo(t, write, "set", "kept", "7")
	eventually(t, "replicas answer reads", func() bool { return redisDo(t, read, "exists", "kept") == "1" })

	for _, r := range servers[1:] {
		eventually(t, "each replica has what was written", func() bool { return redisDo(t, r.address, "exists", "kept") == "1" })
	}
	load := startWrites(t, func() error { return redisSet(write) })
	figures := load.failover(t,
		func() { servers[0].end(syscall.SIGKILL) },
		func() { servers[1].promote(t) })
	t.Logf("figures: redis-replicas: %s", figures)
	servers[2].follow(t, servers[1])
	d.awaitState("redis-replicas", "redis-3", "up")
	if got := redisDo(t, read, "get", "kept"); got != "7" {
		t.Errorf("got %q, want what was written before", got)
	}
}

// redisSet connects, writes and leaves.
func redisSet(address string) error {
	c := redis.NewClient(&redis.Options{
		Addr: address, MaxRetries: -1, DialerRetries: 1, DialTimeout: patience, ReadTimeout: patience,
	})
	defer c.Close()
	if err := c.Set(context.Background(), "n", fmt.Sprint(time.Now().UnixNano()), 0).Err(); err != nil {
		return fmt.Errorf("SET: %w", err)
	}
	return nil
}
