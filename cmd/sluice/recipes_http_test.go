//go:build unix

package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// request is one request of a crowd.
type request struct {
	began, ended time.Time
	by           string
	err          error
}

// crowd is clients that each make one request after the other, over a connection
// of its own.
type crowd struct {
	over atomic.Bool
	all  sync.WaitGroup

	mu   sync.Mutex // guards made
	made []request
}

func startCrowd(address string, n int) *crowd {
	c := &crowd{}
	for range n {
		c.all.Go(func() {
			for !c.over.Load() {
				r := request{began: time.Now()}
				r.by, r.err = askHTTP(address)
				r.ended = time.Now()
				c.mu.Lock()
				c.made = append(c.made, r)
				c.mu.Unlock()
			}
		})
	}
	return c
}

// since returns the requests that began after at and have ended.
func (c *crowd) since(at time.Time) (list []request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.made {
		if !r.began.Before(at) {
			list = append(list, r)
		}
	}
	return list
}

func (c *crowd) end() {
	c.over.Store(true)
	c.all.Wait()
}

// servers are those of the recipe, by id.
type servers map[string]*nginxServer

func startHTTPRecipe(t *testing.T) (*daemon, servers) {
	t.Helper()
	s := servers{}
	pairs := []string{"0.0.0.0:80", free}
	for id, address := range map[string]string{"web-1": "10.0.0.11:8080", "web-2": "10.0.0.12:8080", "reserve": "10.0.0.13:8080"} {
		s[id] = startNginx(t, id)
		pairs = append(pairs, address, s[id].address)
	}
	d := startRecipe(t, "http-proxy-v2", pairs...)
	for id := range s {
		eventually(t, id+" passes its first probe", func() bool { return d.backend("web", id).Health == "up" })
	}
	return d, s
}

// served returns who answers the requests that begin from now on, sorted, once
// there are some.
func (c *crowd) served(t *testing.T) (names []string) {
	t.Helper()
	at := time.Now()
	eventually(t, "requests", func() bool { return len(c.since(at)) >= 100 })
	for _, r := range c.since(at) {
		if r.err == nil && !slices.Contains(names, r.by) {
			names = append(names, r.by)
		}
	}
	slices.Sort(names)
	return names
}

// until waits until exactly these serve.
func (c *crowd) until(t *testing.T, names ...string) {
	t.Helper()
	slices.Sort(names)
	eventually(t, "requests are answered by "+names[0]+" and others", func() bool { return slices.Equal(c.served(t), names) })
}

// none wants no request to have failed that began after at, and returns the time
// until the first had its answer, and the longest.
func (c *crowd) none(t *testing.T, what string, at time.Time) (first, slowest time.Duration) {
	t.Helper()
	all := c.since(at)
	failed := slices.DeleteFunc(slices.Clone(all), func(r request) bool { return r.err == nil })
	if len(failed) > 0 || len(all) == 0 {
		t.Errorf("%s: %d of %d requests failed: %+v", what, len(failed), len(all), failed[:min(3, len(failed))])
		return 0, 0
	}
	first = all[0].ended.Sub(at)
	for _, r := range all {
		first, slowest = min(first, r.ended.Sub(at)), max(slowest, r.ended.Sub(r.began))
	}
	return first, slowest
}

// What http-proxy-v2.md says: servers see who their clients are; one that dies, or
// both, is failed over without one failed request; so is one that is drained; the
// reserve has work only meanwhile; one that hangs is left by probes, and lets go of
// its clients.
func TestRecipeHTTPProxyV2(t *testing.T) {
	d, s := startHTTPRecipe(t)
	address := d.frontend("web").Listen
	crowd := startCrowd(address, 4)
	defer crowd.end()
	crowd.until(t, "web-1", "web-2")

	for _, c := range []struct {
		dies string
		left []string
	}{{"web-1", []string{"reserve", "web-2"}}, {"web-2", []string{"reserve"}}} {
		killed, gone := s[c.dies].crash()
		crowd.until(t, c.left...)
		d.awaitState("web", c.dies, "down")
		down := d.backend("web", c.dies).LastChange.At.Sub(killed)
		first, slowest := crowd.none(t, c.dies+" was killed", gone)
		t.Logf("figures: %s killed under load: the first request is answered after %v, the slowest takes %v, none fails; out of rotation after %v",
			c.dies, (gone.Sub(killed) + first).Round(time.Microsecond), slowest.Round(time.Microsecond), down.Round(time.Millisecond))
	}
	at := time.Now()
	for _, id := range []string{"web-1", "web-2"} {
		s[id].start(t, s[id].address)
	}
	crowd.until(t, "web-1", "web-2")
	t.Logf("figures: both started again: the reserve is off after %v", time.Since(at).Round(time.Millisecond))

	d.must("PATCH", "/backends/web-1", `{"state": "drain"}`)
	crowd.until(t, "reserve", "web-2")
	eventually(t, "web-1 has no sessions", func() bool { return d.backend("web", "web-1").Active == 0 })
	_ = s["web-1"].end(syscall.SIGTERM)
	s["web-1"].start(t, s["web-1"].address)
	d.must("PATCH", "/backends/web-1", `{"state": "ready"}`)
	crowd.until(t, "web-1", "web-2")
	crowd.none(t, "web-1 was drained, restarted and let in again", at)
}

// A server that takes connections and does not answer is found by probes; who
// waits for it is told by a reset, and asks another.
func TestRecipeHTTPProxyV2Hangs(t *testing.T) {
	d, s := startHTTPRecipe(t)
	address := d.frontend("web").Listen
	crowd := startCrowd(address, 8)
	defer crowd.end()
	crowd.until(t, "web-1", "web-2")

	at := time.Now()
	if err := s["web-1"].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	d.awaitState("web", "web-1", "down")
	down := time.Now()
	crowd.until(t, "reserve", "web-2")
	hung := slices.DeleteFunc(crowd.since(at), func(r request) bool { return r.err == nil })
	crowd.none(t, "since web-1 is out", down)
	if len(hung) == 0 {
		t.Error("nobody was told that web-1 hangs")
	}
	t.Logf("figures: web-1 stopped under load: out of rotation after %v, and %d requests that waited for it are reset",
		down.Sub(at).Round(time.Millisecond), len(hung))
	_ = s["web-1"].cmd.Process.Signal(syscall.SIGCONT)
	crowd.until(t, "web-1", "web-2")
}
