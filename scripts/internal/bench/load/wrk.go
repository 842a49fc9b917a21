//go:build linux

package load

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"sluice/scripts/internal/bench/proc"
	"sluice/scripts/internal/bench/stats"
)

// Wrk is wrk: its connections ask web servers for a page.
type Wrk struct {
	Group       *proc.Group
	Path        string // of wrk
	Log         string
	Target      string   // the subject
	Servers     []string // what counts the requests, at /requests, with nginx's stub_status
	Connections int
}

// wrk is a Wrk that runs.
type wrk struct {
	*proc.Process
	servers []string
}

// Start begins.
func (w Wrk) Start() (Load, error) {
	const threads, longest = 2, "10m"
	p, err := w.Group.Start(proc.Command{
		Path: w.Path, Log: w.Log,
		Args: []string{"-t", strconv.Itoa(min(threads, w.Connections)), "-c", strconv.Itoa(w.Connections), "-d", longest, "http://" + w.Target + "/"},
	})
	if err != nil {
		return nil, err
	}
	return &wrk{p, w.Servers}, nil
}

func (w *wrk) Units() (int64, error) {
	if err := w.Alive(); err != nil {
		return 0, err
	}
	var sum int64
	for _, address := range w.servers {
		n, err := webRequests(address)
		if err != nil {
			return 0, fmt.Errorf("requests of the web server: %w", err)
		}
		sum += n
	}
	return sum, nil
}

func (w *wrk) Record() {}

func (w *wrk) Stop() (*stats.Histogram, error) {
	err := w.Alive()
	if end := w.End(); err == nil {
		err = end
	}
	return new(stats.Histogram), err
}

// webRequests asks a web server for how many requests it has answered.
func webRequests(address string) (int64, error) {
	c, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "GET /requests HTTP/1.0\r\n\r\n"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(c)
	if err != nil {
		return 0, err
	}
	return parseStubStatus(string(text))
}

// parseStubStatus reads the third number after "server accepts handled requests".
func parseStubStatus(text string) (int64, error) {
	_, rest, _ := strings.Cut(text, "server accepts handled requests")
	fields := strings.Fields(rest)
	if len(fields) < 3 {
		return 0, fmt.Errorf("%q is no answer of stub_status", text)
	}
	return strconv.ParseInt(fields[2], 10, 64)
}
