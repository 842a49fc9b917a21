//go:build unix

package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// startRedisReplica starts a Redis server that replicates primary, and waits until
// it has a whole copy. Both pass the time between two words quickly.
func startRedisReplica(t *testing.T, primary *redisServer, args ...string) *redisServer {
	t.Helper()
	redisDo(t, primary.address, "config", "set", "repl-diskless-sync-delay", "0")
	redisDo(t, primary.address, "config", "set", "repl-ping-replica-period", "1")
	r := startRedis(t, args...)
	r.follow(t, primary)
	return r
}

// follow makes r a replica of primary, and waits until it has a whole copy.
func (r *redisServer) follow(t *testing.T, primary *redisServer) {
	t.Helper()
	host, port, err := net.SplitHostPort(primary.address)
	if err != nil {
		t.Fatal(err)
	}
	redisDo(t, r.address, "replicaof", host, port)
	eventually(t, "the replica has a whole copy", func() bool {
		return strings.Contains(redisDo(t, r.address, "info", "replication"), "master_link_status:up")
	})
}

// promote makes r a primary.
func (r *redisServer) promote(t *testing.T) {
	t.Helper()
	redisDo(t, r.address, "replicaof", "no", "one")
}

// redisDo has one command answered, as the default user without a password. It says
// nothing else.
func redisDo(t *testing.T, address string, words ...any) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
	defer c.Close()
	answer, err := c.Do(t.Context(), words...).Result()
	if err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return fmt.Sprint(answer)
}

// The helpers are what they say: a replica follows, is a primary once promoted,
// and can follow another.
func TestRedisReplica(t *testing.T) {
	primary := startRedis(t)
	replica := startRedisReplica(t, primary)
	redisDo(t, primary.address, "set", "kept", "7")
	eventually(t, "the replica has the value", func() bool {
		return redisDo(t, replica.address, "exists", "kept") == "1" && redisDo(t, replica.address, "get", "kept") == "7"
	})
	replica.promote(t)
	redisDo(t, replica.address, "set", "kept", "8")
	primary.follow(t, replica)
	if got := redisDo(t, primary.address, "get", "kept"); got != "8" {
		t.Errorf("got %q from the old primary, want 8", got)
	}
}
