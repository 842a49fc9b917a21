//go:build linux

package load

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/scripts/internal/bench/stats"
)

// block is what a stream moves with one call.
const block = 128 << 10

// Bulk is streams that move bytes without end, one way. A unit is a byte.
type Bulk struct {
	Targets   []netip.AddrPort
	Streams   int
	ToBackend bool          // the client sends; otherwise it receives
	Pause     time.Duration // after each call; 0 is as fast as it goes
	Block     int           // bytes of a call; 0 is 128 KiB
}

// streams is a Bulk that runs.
type streams struct {
	conns []net.Conn
	moved []atomic.Int64
	stop  chan struct{}
	wg    sync.WaitGroup

	mu  sync.Mutex // guards err
	err error
}

// Start connects all streams, then begins.
func (b Bulk) Start() (Load, error) {
	s := &streams{moved: make([]atomic.Int64, b.Streams), stop: make(chan struct{})}
	for i := range b.Streams {
		c, err := net.DialTimeout("tcp4", b.Targets[i%len(b.Targets)].String(), patience)
		if err != nil {
			s.Stop()
			return nil, fmt.Errorf("connect stream %d: %w", i, err)
		}
		s.conns = append(s.conns, c)
	}
	for i, c := range s.conns {
		move := c.Read
		if b.ToBackend {
			move = c.Write
		}
		s.wg.Go(func() { s.run(b, move, &s.moved[i]) })
	}
	return s, nil
}

// run moves bytes until the load is stopped or its connection fails.
func (s *streams) run(b Bulk, move func([]byte) (int, error), moved *atomic.Int64) {
	buf := make([]byte, cmp.Or(b.Block, block))
	for {
		n, err := move(buf)
		moved.Add(int64(n))
		select {
		case <-s.stop:
			return
		default:
		}
		if err != nil {
			s.mu.Lock()
			s.err = errors.Join(s.err, err)
			s.mu.Unlock()
			return
		}
		if b.Pause > 0 {
			select {
			case <-time.After(b.Pause):
			case <-s.stop:
			}
		}
	}
}

func (s *streams) Units() (int64, error) {
	var sum int64
	for i := range s.moved {
		sum += s.moved[i].Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return sum, s.err
}

func (s *streams) Record() {}

func (s *streams) Stop() (*stats.Histogram, error) {
	close(s.stop)
	for _, c := range s.conns {
		c.Close()
	}
	s.wg.Wait()
	return new(stats.Histogram), s.err
}
