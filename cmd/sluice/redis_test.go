//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is a Redis that keeps nothing on disk.
type redisServer struct {
	*process
	address string
	args    []string // of this one
}

// startRedis starts a Redis server on a free port, with args such as "--maxmemory", "1gb".
func startRedis(t *testing.T, args ...string) *redisServer {
	t.Helper()
	r := &redisServer{args: args}
	r.address = onFreePort(t, func(port string) bool { return r.start(t, port) })
	return r
}

// start starts the server on port, and waits until it answers there. It returns
// false if it could not have the port.
func (r *redisServer) start(t *testing.T, port string) (bound bool) {
	t.Helper()
	r.process = startProcess(t, exec.Command(program(t, "redis-server"), append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(), "--save", "", "--appendonly", "no"}, r.args...)...))
	mine := fmt.Sprintf("process_id:%d\r\n", r.cmd.Process.Pid)
	eventually(t, "redis-server answers", func() bool {
		bound = strings.Contains(redisInfo(net.JoinHostPort("127.0.0.1", port)), mine)
		return bound || r.ended()
	})
	if !bound && !strings.Contains(r.out.String(), "Address already in use") {
		t.Fatalf("redis-server ended: %v\n%s", r.err, r.out.String())
	}
	return bound
}

// redisInfo asks the server at address about itself; empty if it does not answer.
func redisInfo(address string) string {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return ""
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return ""
	}
	if _, err := io.WriteString(c, "INFO server\r\nQUIT\r\n"); err != nil {
		return ""
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return ""
	}
	return string(answer)
}

// restart starts the server again on the port that it had.
func (r *redisServer) restart(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(r.address)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port of redis-server is free again", func() bool { return r.start(t, port) })
}

// redisClient returns a client of its own that tries everything just once.
func redisClient(t *testing.T, address string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

// startRedises starts three servers and a balancer before them.
func startRedises(t *testing.T, pool string) (*sluice, []*redisServer) {
	t.Helper()
	var servers []*redisServer
	var addresses []string
	for range 3 {
		r := startRedis(t)
		servers = append(servers, r)
		addresses = append(addresses, r.address)
	}
	return startSluice(t, "", pool, addresses...), servers
}

func TestRealRedisBenchmark(t *testing.T) {
	tool := program(t, "redis-benchmark")
	b, servers := startRedises(t, "strategy = \"least_connections\"\nties = \"rotate\"")
	direct := benchmarkRedis(t, tool, servers[0].address)
	through := benchmarkRedis(t, tool, b.address)
	t.Logf("figures: redis-benchmark, requests a second: direct %s, through sluice %s", direct, through)

	for i := range servers {
		if k := b.backend(i); k.Total < 20 {
			t.Errorf("backend %s got %d sessions, want a third of 100", k.ID, k.Total)
		}
	}
}

// benchmarkRedis runs redis-benchmark and returns its requests a second.
func benchmarkRedis(t *testing.T, tool, address string) (figures string) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool,
		"-h", host, "-p", port, "-n", "20000", "-c", "50", "-t", "set,get", "-q").CombinedOutput()
	if err != nil {
		t.Fatalf("redis-benchmark: %v\n%s", err, out)
	}
	found := regexp.MustCompile(`(SET|GET): ([0-9.]+) requests per second`).FindAllSubmatch(out, -1)
	if len(found) != 2 || strings.Contains(strings.ToLower(string(out)), "error") {
		t.Fatalf("redis-benchmark printed:\n%s", out)
	}
	for _, f := range found {
		figures += fmt.Sprintf("%s %s ", f[1], f[2])
	}
	return strings.TrimSpace(figures)
}

// A subscriber waits for the server to speak, for as long as that takes.
func TestRealRedisSubscriber(t *testing.T) {
	b, servers := startRedises(t, "")
	c := redisClient(t, b.address)
	sub := c.Subscribe(t.Context(), "news")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	on := -1
	for i := range servers {
		if b.backend(i).Active > 0 {
			on = i
		}
	}
	if on < 0 {
		t.Fatal("no backend has the session of the subscriber")
	}
	// No checks of the client's own: the connection is to be idle.
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(time.Hour))
	select {
	case m := <-messages:
		t.Fatalf("got %v before anything was published", m)
	case <-time.After(1500 * time.Millisecond):
	}

	for i, r := range servers {
		heard, err := redisClient(t, r.address).Publish(t.Context(), "news", fmt.Sprint("from ", i)).Result()
		if want := map[bool]int64{true: 1}[i == on]; err != nil || heard != want {
			t.Fatalf("publishing on server %d: got %d subscribers, %v; want %d", i, heard, err, want)
		}
	}
	select {
	case m := <-messages:
		if want := fmt.Sprint("from ", on); m.Payload != want {
			t.Errorf("got message %q, want %q", m.Payload, want)
		}
	case <-time.After(patience):
		t.Fatal("the message did not arrive")
	}
	if total := b.frontend("front").Total; total != 1 {
		t.Errorf("got %d sessions, want the one of the subscriber", total)
	}
	if err := errors.Join(sub.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}

// B071: a server that takes connections but refuses to work is down, as a plain
// connect would never tell, and the reason is what it said.
func TestRealRedisRefusesToWork(t *testing.T) {
	r := startRedis(t)
	const ping = "[pool.health]\nsend = \"PING\\r\\n\"\nexpect = '^\\+PONG'\nfall = 1\nrise = 1\n"
	d := startDaemon(t, head+frontendText("front", free, "real")+
		strings.Replace(poolText("real", "", "b0="+r.address), "[pool.health]\n", ping, 1))
	eventually(t, "the server is up", func() bool { return d.backend("real", "b0").Health == "up" })

	c := redis.NewClient(&redis.Options{Addr: r.address, Password: "a password"})
	defer c.Close()
	setPassword := func(c *redis.Client, to string) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), "requirepass", to).Err(); err != nil {
			t.Fatal(err)
		}
	}
	setPassword(redisClient(t, r.address), "a password")
	eventually(t, "the server is down", func() bool { return d.backend("real", "b0").State == "down" })
	if got := d.backend("real", "b0").LastChange.Reason; !strings.Contains(got, `got "-NOAUTH Authentication required.\r\n"`) {
		t.Errorf("got reason %q", got)
	}
	setPassword(c, "")
	eventually(t, "the server is up again", func() bool { return d.backend("real", "b0").State == "up" })
}

// A server that dies takes along the sessions that it has, and no other. When
// it is back, so is its traffic.
func TestRealRedisKilled(t *testing.T) {
	b, servers := startRedises(t, "")
	load := startPings(b.address)
	defer load.stop()
	eventually(t, "every server has traffic", func() bool {
		for i := range servers {
			if b.backend(i).Total < 20 {
				return false
			}
		}
		return true
	})

	if err := servers[0].end(syscall.SIGKILL); err == nil {
		t.Fatal("redis-server ended well")
	}
	killed := time.Now()
	eventually(t, "the killed server is down", func() bool { return b.backend(0).State == "down" })
	eventually(t, "the others carry on", func() bool { return load.begunAfter(killed) > 500 })

	servers[0].restart(t)
	eventually(t, "the restarted server is up", func() bool { return b.backend(0).State == "up" })
	before := b.backend(0).Total
	eventually(t, "the restarted server has traffic", func() bool { return b.backend(0).Total >= before+100 })

	load.stop()
	broken := 0
	for _, p := range load.pings {
		switch {
		case p.err == nil:
		case p.begun.Before(killed):
			broken++
		default:
			t.Errorf("a client that came %v after the kill: %v", p.begun.Sub(killed), p.err)
		}
	}
	t.Logf("figures: one of three Redis servers killed: %d clients, %d of them broken off by the kill", len(load.pings), broken)
	if broken > pingers {
		t.Errorf("%d clients were broken off, want at most the %d that were there", broken, pingers)
	}
}

// pingers is how many clients ping at a time.
const pingers = 8

// pings is a load of short connections: connect, PING, close.
type pings struct {
	address string
	quit    chan struct{}
	once    sync.Once // closes quit
	running sync.WaitGroup

	mu    sync.Mutex // guards pings until all have ended
	pings []ping
}

// ping is how one of the connections went.
type ping struct {
	begun time.Time
	err   error
}

func startPings(address string) *pings {
	l := &pings{address: address, quit: make(chan struct{})}
	for range pingers {
		l.running.Go(l.run)
	}
	return l
}

func (l *pings) run() {
	for {
		select {
		case <-l.quit:
			return
		default:
		}
		p := ping{begun: time.Now()}
		p.err = l.pingOnce()
		l.mu.Lock()
		l.pings = append(l.pings, p)
		l.mu.Unlock()
	}
}

// pingOnce is one short connection.
func (l *pings) pingOnce() error {
	c, err := net.DialTimeout("tcp", l.address, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "PING\r\n"); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err
	}
	if answer != "+PONG\r\n" {
		return fmt.Errorf("got %q, want PONG", answer)
	}
	return nil
}

// begunAfter returns how many connections began after t and are over.
func (l *pings) begunAfter(t time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.pings {
		if p.begun.After(t) {
			n++
		}
	}
	return n
}

// stop ends the load and waits for it.
func (l *pings) stop() {
	l.once.Do(func() { close(l.quit) })
	l.running.Wait()
}
