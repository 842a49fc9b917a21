// Package metrics is GET /metrics: it turns the status of everything, read once
// a scrape, into the text that Prometheus reads.
//
// It counts nothing itself: whoever owns an event counts it, and a scrape costs
// the traffic nothing but reading. So what is not in the status vanishes from
// the metrics, and what comes back goes on from where it was.
//
//	scrape -> State (read once) -> families -> text
//
// Invariants:
//
//   - Labels are names of the configuration and words of ours, never what a
//     client chose.
//   - A series appears once: of two backends of one pool with one id, one of
//     which drains, the member counts, and both are in the active sessions.
package metrics

import (
	"log"
	"net/http"
	"time"

	"sluice/l4"
	"sluice/pool"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// atOnce bounds the scrapes under way, each of which holds the text in memory:
	// a pair of Prometheus servers.
	atOnce = 2
	// patience is how long another scrape waits for its turn: half of what
	// Prometheus waits for the answer by default (its scrape_timeout).
	patience = 5 * time.Second
)

// State is everything at one moment.
type State struct {
	Process   Process
	Frontends []l4.Status   // /proxy included
	Pools     []pool.Status // of the configuration
	Leaving   []pool.Status // removed, and with sessions still
}

// Process is what belongs to no frontend and no pool.
type Process struct {
	Version       string
	Engine        string
	Generation    int64
	Reloaded      time.Time // the newest attempt to make the file current
	ReloadGood    bool      // it succeeded
	Sessions      int64
	SessionsMax   int64
	LogDropped    int64
	StateSaved    bool
	StateFailures int64
}

// Page answers GET /metrics. Safe for concurrent use.
type Page struct {
	turns chan struct{}
	text  http.Handler
}

// New returns a page that reads the state at each scrape. complaints gets what
// the library has to say.
func New(read func() State, complaints *log.Logger) *Page {
	return &Page{
		turns: make(chan struct{}, atOnce),
		text: promhttp.HandlerFor(newRegistry(read), promhttp.HandlerOpts{
			ErrorLog:      complaints,
			ErrorHandling: promhttp.ContinueOnError, // most of it is better than nothing
		}),
	}
}

// newRegistry holds all that a scrape tells.
func newRegistry(read func() State) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector{read},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}

// ServeHTTP answers one scrape, or 503 if too many others are slow.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-r.Context().Done():
		return
	case <-t.C:
		http.Error(w, "other scrapes are under way; try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	p.text.ServeHTTP(w, r)
}
