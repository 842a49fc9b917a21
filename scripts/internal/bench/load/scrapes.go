//go:build linux

package load

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"sluice/scripts/internal/bench/stats"
)

// Scrapes reads the metrics of Sluice again and again, beside another load.
type Scrapes struct {
	Socket string // of the admin side
	Every  time.Duration
}

// scrapes is Scrapes under way.
type scrapes struct {
	Scrapes
	done atomic.Int64
	stop chan struct{}
	over chan error
}

// Start begins with a scrape at once.
func (s Scrapes) Start() (Load, error) {
	l := &scrapes{Scrapes: s, stop: make(chan struct{}), over: make(chan error, 1)}
	go func() { l.over <- l.run() }()
	return l, nil
}

func (l *scrapes) run() error {
	tick := time.NewTicker(l.Every)
	defer tick.Stop()
	for {
		if err := l.scrape(); err != nil {
			return fmt.Errorf("scrape: %w", err)
		}
		l.done.Add(1)
		select {
		case <-tick.C:
		case <-l.stop:
			return nil
		}
	}
}

// scrape asks as Prometheus does, but for the compression, which is its own.
func (l *scrapes) scrape() error {
	c, err := net.DialTimeout("unix", l.Socket, patience)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n"); err != nil {
		return err
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	head, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
	if !bytes.Contains(head, []byte(" 200 ")) || !bytes.Contains(body, []byte("sluice_build_info")) {
		return fmt.Errorf("no metrics: %.100q", answer)
	}
	return nil
}

func (l *scrapes) Units() (int64, error) { return l.done.Load(), nil }

// Record does nothing: nobody asks how long a scrape takes.
func (l *scrapes) Record() {}

func (l *scrapes) Stop() (*stats.Histogram, error) {
	close(l.stop)
	return nil, <-l.over
}
