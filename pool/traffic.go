package pool

import "sync/atomic"

// trafficShards is how many threads can count bytes of one backend without
// waiting for each other's cache line; more of them share. Chosen: 512 bytes a
// backend.
const trafficShards = 8

// traffic counts the payload bytes of a backend. Safe for concurrent use.
type traffic [trafficShards]struct {
	toBackend atomic.Int64
	toClient  atomic.Int64
	_         [48]byte // the rest of a cache line
}

func (t *traffic) add(shard uint8, toBackend, toClient int64) {
	s := &t[shard%trafficShards]
	if toBackend != 0 {
		s.toBackend.Add(toBackend)
	}
	if toClient != 0 {
		s.toClient.Add(toClient)
	}
}

// totals sums what was counted so far.
func (t *traffic) totals() (toBackend, toClient int64) {
	for i := range t {
		toBackend += t[i].toBackend.Load()
		toClient += t[i].toClient.Load()
	}
	return toBackend, toClient
}
