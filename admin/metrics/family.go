package metrics

import (
	"maps"
	"slices"

	"sluice/pool"

	"github.com/prometheus/client_golang/prometheus"
)

// family is one metric of every T. Exactly one of its funcs is set.
type family[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
	split func(*T) map[string]int64 // by a further label
	spans func(*T) pool.Durations
}

// families makes those of one kind of owner, which has these labels.
type families[T any] []string

func (owner families[T]) desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(slices.Clone(owner), more...), nil)
}

func (owner families[T]) gauge(name, help string, value func(*T) float64) family[T] {
	return family[T]{desc: owner.desc(name, help), kind: prometheus.GaugeValue, value: value}
}

func (owner families[T]) counter(name, help string, value func(*T) int64) family[T] {
	return family[T]{desc: owner.desc(name, help), kind: prometheus.CounterValue, value: func(t *T) float64 { return float64(value(t)) }}
}

// counters is a counter for each value of a further label.
func (owner families[T]) counters(name, help, label string, split func(*T) map[string]int64) family[T] {
	return family[T]{desc: owner.desc(name, help, label), kind: prometheus.CounterValue, split: split}
}

func (owner families[T]) histogram(name, help string, spans func(*T) pool.Durations) family[T] {
	return family[T]{desc: owner.desc(name, help), spans: spans}
}

// collect tells the metric of t, whose own labels are given.
func (f *family[T]) collect(out chan<- prometheus.Metric, t *T, labels ...string) {
	switch {
	case f.value != nil:
		out <- prometheus.MustNewConstMetric(f.desc, f.kind, f.value(t), labels...)
	case f.split != nil:
		by := f.split(t)
		for _, word := range slices.Sorted(maps.Keys(by)) {
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(by[word]), append(slices.Clone(labels), word)...)
		}
	default:
		out <- constHistogram(f.desc, f.spans(t), labels)
	}
}

func constHistogram(desc *prometheus.Desc, d pool.Durations, labels []string) prometheus.Metric {
	upTo := make(map[float64]uint64, len(d.Bounds))
	n := uint64(0)
	for i, count := range d.Counts {
		n += uint64(count)
		if i < len(d.Bounds) {
			upTo[d.Bounds[i].Seconds()] = n
		}
	}
	return prometheus.MustNewConstHistogram(desc, n, d.Sum.Seconds(), upTo, labels...)
}

func describe[T any](out chan<- *prometheus.Desc, fs []family[T]) {
	for _, f := range fs {
		out <- f.desc
	}
}

func collect[T any](out chan<- prometheus.Metric, fs []family[T], t *T, labels ...string) {
	for i := range fs {
		fs[i].collect(out, t, labels...)
	}
}

// truth is how a metric says yes and no.
func truth(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
