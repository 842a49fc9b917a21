//go:build linux

package load

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/stats"
)

// What redis-benchmark asks for with -t get, and what it gets once Prepare has
// set the key: the same request and answer for our own clients.
const (
	redisKey   = "key:__rand_int__"
	redisValue = "xxx"

	// RedisRequest and RedisAnswer are that, the answer by its size.
	RedisRequest = "*2\r\n$3\r\nGET\r\n$16\r\n" + redisKey + "\r\n"
	RedisAnswer  = len("$3\r\n" + redisValue + "\r\n")
)

// Redis is redis-benchmark: its clients ask redis-servers for a key.
type Redis struct {
	Group   *proc.Group
	Path    string // of redis-benchmark
	Log     string
	Target  string   // the subject
	Servers []string // what counts the requests
	Clients int
	Depth   int // requests in flight per client
}

// redis is a Redis that runs.
type redis struct {
	benchmark *proc.Process
	servers   []*redisClient
}

// Start begins. The servers count the requests, so redis-benchmark neither has
// to end nor to tell how long it took, which it rounds to 250 ms where it uses
// threads.
func (r Redis) Start() (Load, error) {
	run := &redis{}
	for _, address := range r.Servers {
		c, err := dialRedis(address)
		if err != nil {
			run.close()
			return nil, err
		}
		run.servers = append(run.servers, c)
	}
	host, port, err := net.SplitHostPort(r.Target)
	if err != nil {
		run.close()
		return nil, err
	}
	endless := strconv.Itoa(1 << 30)
	run.benchmark, err = r.Group.Start(proc.Command{
		Path: r.Path, Log: r.Log,
		Args: []string{"-h", host, "-p", port, "-t", "get", "-n", endless, "-q", "--threads", strconv.Itoa(min(r.Clients, 2)),
			"-c", strconv.Itoa(r.Clients), "-P", strconv.Itoa(max(r.Depth, 1))},
	})
	if err != nil {
		run.close()
		return nil, err
	}
	return run, nil
}

func (r *redis) Units() (int64, error) {
	if err := r.benchmark.Alive(); err != nil {
		return 0, err
	}
	var sum int64
	for _, c := range r.servers {
		n, err := c.commands()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (r *redis) Record() {}

func (r *redis) Stop() (*stats.Histogram, error) {
	r.close()
	err := r.benchmark.Alive()
	if end := r.benchmark.End(); err == nil {
		err = end
	}
	return new(stats.Histogram), err
}

func (r *redis) close() {
	for _, c := range r.servers {
		c.Close()
	}
}

// redisClient is one connection to a redis-server.
type redisClient struct {
	net.Conn
	answers *bufio.Reader
}

func dialRedis(address string) (*redisClient, error) {
	c, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return nil, fmt.Errorf("connect to redis-server: %w", err)
	}
	return &redisClient{c, bufio.NewReader(c)}, nil
}

// ask sends a command and returns its answer, a simple or a bulk string.
func (c *redisClient) ask(command string) (string, error) {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return "", fmt.Errorf("ask redis-server for %q: %w", command, err)
	}
	line, err := c.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("redis-server's answer to %q: %w", command, err)
	}
	line = strings.TrimSpace(line)
	if line[0] != '$' {
		return line, nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil {
		return "", fmt.Errorf("redis-server's answer to %q: %w", command, err)
	}
	text := make([]byte, n+len("\r\n"))
	if _, err := io.ReadFull(c.answers, text); err != nil {
		return "", fmt.Errorf("redis-server's answer to %q: %w", command, err)
	}
	return string(text[:n]), nil
}

// commands returns how many commands the server has run.
func (c *redisClient) commands() (int64, error) {
	text, err := c.ask("INFO stats")
	if err != nil {
		return 0, err
	}
	return parseCommands(text)
}

func parseCommands(info string) (int64, error) {
	for line := range strings.Lines(info) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			return strconv.ParseInt(n, 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO has no total_commands_processed")
}

// PrepareRedis sets the key that is asked for.
func PrepareRedis(address string) error {
	c, err := dialRedis(address)
	if err != nil {
		return err
	}
	defer c.Close()
	answer, err := c.ask("SET " + redisKey + " " + redisValue)
	if err == nil && answer != "+OK" {
		err = fmt.Errorf("redis-server: SET: %s", answer)
	}
	return err
}
