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
	"slices"
	"sync"
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
	// fairShare is how long a scrape may take whatever others wait for, and how long
	// one that has ended another's may wait for its turn. Chosen: ten times what a
	// thousand backends take.
	fairShare = time.Second
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

	mu       sync.Mutex // guards underWay
	underWay []*turn    // the oldest first
}

// turn is a scrape under way.
type turn struct {
	began  time.Time
	client *http.ResponseController
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
	t := p.enter(w, r)
	if t == nil {
		http.Error(w, "other scrapes are under way; try again", http.StatusServiceUnavailable)
		return
	}
	defer p.leave(t)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	p.text.ServeHTTP(w, r)
}

// enter waits for a turn; nil if there is none. Who has waited long enough ends
// the scrape of the slowest reader, which could else keep all others out.
func (p *Page) enter(w http.ResponseWriter, r *http.Request) *turn {
	defer time.AfterFunc(patience, p.endSlowest).Stop()
	enough := time.NewTimer(patience + fairShare)
	defer enough.Stop()
	select {
	case p.turns <- struct{}{}:
	case <-r.Context().Done():
		return nil
	case <-enough.C:
		return nil
	}
	t := &turn{time.Now(), http.NewResponseController(w)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.underWay = append(p.underWay, t)
	return t
}

// leave ends a turn.
func (p *Page) leave(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.underWay, t); i >= 0 {
		p.underWay = slices.Delete(p.underWay, i, i+1)
	}
	<-p.turns
}

// endSlowest makes the writes of the oldest scrape fail, if it has had its share.
func (p *Page) endSlowest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.underWay) == 0 || time.Since(p.underWay[0].began) < fairShare {
		return
	}
	_ = p.underWay[0].client.SetWriteDeadline(time.Unix(1, 0)) // a recorder in a test has none
	p.underWay = p.underWay[1:]                                // the next who waits ends another
}
