//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"

	"sluice/scripts/internal/bench/report"
	"sluice/scripts/internal/bench/serve"
	"sluice/scripts/internal/bench/subject"
	"sluice/scripts/internal/bench/trial"
)

// scenario is one thing that is measured.
type scenario struct {
	name, about string
	services    []string // behind the subjects
	ordinary    bool     // the subjects run as an ordinary user
	feature     subject.Feature
	against     []string // opponents that a bar is about
	beside      []string // opponents for the picture
	bars        []report.Bar
	fresh       bool // a subject is started for each round
	prepare     func(context.Context, *stage) error
	round       func(context.Context, *stage, *subject.Running) (trial.Sample, error)
	run         func(context.Context, *bench) ([]*report.Scenario, error) // instead of all that
}

const (
	redisService = "redis"
	webService   = "web"

	smallWork = "small requests"
	shortWork = "short connections"
)

var peers = []string{subject.HAProxy, subject.Nginx}

// scenarios are all there are, in the order in which they run.
func scenarios() []*scenario {
	var all []*scenario
	for _, s := range []struct {
		clients int
		cpu     float64
	}{{1, 1.0}, {50, 1.1}, {500, 1.0}} {
		all = append(all, small(s.clients, s.cpu))
	}
	all = append(all, pipelined(), web(), short())
	for _, ordinary := range []bool{false, true} {
		for _, streams := range []int{2, 200} {
			all = append(all, bulk(streams, false, ordinary), bulk(streams, true, ordinary))
		}
	}
	return append(all, idle(), besideBulk(), openLoop(), slowReader(),
		cost("idle-timeout", smallWork, subject.IdleTimeout, 1.05),
		cost("idle-timeout-short", shortWork, subject.IdleTimeout, 1.05),
		cost("limits", shortWork, subject.Limits, 1.05),
		cost("scraped", smallWork, subject.Scraped, 1.05),
		cost("access-log", shortWork, subject.AccessLog, 1.15),
		pick())
}

// chosen returns the scenarios that names ask for, all if there is no name.
func chosen(names []string) ([]*scenario, error) {
	all := scenarios()
	if len(names) == 0 {
		return all, nil
	}
	asked := map[string]bool{}
	for _, name := range names {
		found := false
		for _, s := range all {
			// "bulk" asks for all of them, "bulk-to-client-2" for one.
			if s.name == name || strings.HasPrefix(s.name, name+"-") && !exact(all, name) {
				asked[s.name], found = true, true
			}
		}
		if !found {
			return nil, usageError{fmt.Errorf("no scenario is called %q; -list lists them", name)}
		}
	}
	var some []*scenario
	for _, s := range all {
		if asked[s.name] {
			some = append(some, s)
		}
	}
	return some, nil
}

func exact(all []*scenario, name string) bool {
	for _, s := range all {
		if s.name == name {
			return true
		}
	}
	return false
}

func small(clients int, bar float64) *scenario {
	s := &scenario{
		name:     fmt.Sprintf("small-%d", clients),
		about:    fmt.Sprintf("small requests of %s: GET from redis-server", count(clients, "client")),
		services: []string{redisService},
		against:  peers,
		beside:   []string{subject.Copy, subject.Base, subject.IOCopy, subject.Direct},
		bars:     []report.Bar{{Measure: "cpu_request", Against: peers, Limit: bar}},
		round:    requestRound(clients, 1),
	}
	if clients > 1 {
		s.bars = append(s.bars, report.Bar{Measure: "requests", Against: peers, Limit: 0.95})
	}
	return s
}

func pipelined() *scenario {
	const clients, depth = 50, 16
	return &scenario{
		name:     "pipelined",
		about:    fmt.Sprintf("the same of %d clients that send %d requests at a time", clients, depth),
		services: []string{redisService},
		against:  peers,
		beside:   []string{subject.Copy, subject.Base, subject.IOCopy, subject.Direct},
		round:    requestRound(clients, depth),
	}
}

func web() *scenario {
	return &scenario{
		name:     "web",
		about:    "HTTP requests of 50 connections: wrk, answered by nginx",
		services: []string{webService},
		against:  peers,
		beside:   []string{subject.Copy, subject.Base, subject.IOCopy, subject.Direct},
		round:    webRound,
	}
}

func short() *scenario {
	return &scenario{
		name:     "short",
		about:    "short connections: connect, 64 bytes there and back, close",
		services: []string{serve.Echo},
		against:  peers,
		beside:   []string{subject.Copy, subject.Base, subject.IOCopy, subject.Direct},
		bars:     []report.Bar{{Measure: "cpu_connection", Against: peers, Limit: 1.0}},
		round:    shortRound,
	}
}

// bulk moves bytes without end. With 200 streams the buffers of the sockets hold
// gigabytes, so a round takes as long again to get going.
func bulk(streams int, toBackend, ordinary bool) *scenario {
	s := &scenario{
		name:     fmt.Sprintf("bulk-to-client-%d", streams),
		about:    fmt.Sprintf("%s of bulk, backend to client", count(streams, "stream")),
		services: []string{serve.Source},
		ordinary: ordinary,
		against:  []string{subject.HAProxy, subject.IOCopy},
		beside:   []string{subject.Nginx, subject.Copy, subject.Base, subject.Direct},
		bars: []report.Bar{
			{Measure: "cpu_gb", Against: []string{subject.IOCopy}, Limit: 1.0},
			{Measure: "cpu_gb", Against: []string{subject.HAProxy}, Limit: 0.5},
		},
		round: bulkRound(streams, toBackend),
	}
	if toBackend {
		s.name = strings.Replace(s.name, "client", "backend", 1)
		s.about = fmt.Sprintf("%s of bulk, client to backend", count(streams, "stream"))
		s.services = []string{serve.Sink}
	}
	if ordinary {
		s.name += "-user"
		s.about += ", as an ordinary user"
	}
	return s
}

func idle() *scenario {
	return &scenario{
		name:     "idle",
		about:    "memory and descriptors per idle session: the slope from 2,500 to 9,000",
		services: []string{serve.Echo},
		against:  []string{subject.HAProxy},
		beside:   []string{subject.Nginx, subject.Copy, subject.Base, subject.IOCopy},
		bars:     []report.Bar{{Measure: "memory", Limit: 0.5}, {Measure: "descriptors", Limit: 2.01}},
		fresh:    true,
		round:    idleRound,
	}
}

func besideBulk() *scenario {
	return &scenario{
		name:     "beside-bulk",
		about:    "latency at a fixed rate, a tenth of what HAProxy can do, beside 4 streams of bulk",
		services: []string{serve.Echo, serve.Source},
		against:  []string{subject.HAProxy},
		beside:   []string{subject.Nginx, subject.Copy, subject.Base, subject.IOCopy},
		bars:     []report.Bar{{Measure: "p99", Against: []string{subject.HAProxy}, Limit: 1.2}},
		prepare:  partOfPeak(10),
		round:    besideBulkRound,
	}
}

func openLoop() *scenario {
	return &scenario{
		name:     "open-loop",
		about:    "latency at a fixed rate, half of what HAProxy can do, from when a request was to be sent",
		services: []string{serve.Echo},
		against:  []string{subject.HAProxy},
		beside:   []string{subject.Nginx, subject.Copy, subject.Base, subject.IOCopy, subject.Direct},
		bars:     []report.Bar{{Measure: "p99", Against: []string{subject.HAProxy}, Limit: 1.2}},
		prepare:  partOfPeak(2),
		round:    openLoopRound,
	}
}

func slowReader() *scenario {
	return &scenario{
		name:     "slow-reader",
		about:    "small requests of 50 clients beside one client that reads a stream slowly",
		services: []string{serve.Echo, serve.Source},
		against:  []string{subject.HAProxy},
		beside:   []string{subject.Nginx, subject.Copy, subject.Base, subject.IOCopy},
		round:    slowReaderRound,
	}
}

// cost compares Sluice with a feature to Sluice without it.
func cost(name, work string, f subject.Feature, limit float64) *scenario {
	s := &scenario{
		name:     "cost-" + name,
		about:    fmt.Sprintf("%s with %s on, and off", work, f),
		services: []string{serve.Echo},
		feature:  f,
		bars:     []report.Bar{{Measure: "cpu_connection", Against: []string{without}, Limit: limit}},
		round:    shortRound,
	}
	if work == smallWork {
		s.services = []string{redisService}
		s.bars[0].Measure = "cpu_request"
		s.round = requestRound(50, 1)
	}
	return s
}

func pick() *scenario {
	return &scenario{
		name:  "pick",
		about: "what it costs to pick one of 10, 100 and 1,000 backends",
		run:   runPick,
	}
}

// count writes "1 client", "50 clients".
func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
