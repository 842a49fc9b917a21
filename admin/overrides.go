package admin

import (
	"fmt"
	"net/http"

	"sluice/pool"

	"go.uber.org/zap"
)

// forgotten is the answer of a call that undoes what the API changed.
type forgotten struct {
	Forgotten []pool.Difference `json:"forgotten"`
}

// forget makes the file's view current again: of one backend, of one pool, or of
// all pools.
func (s *Server) forget(c *call) (int, any, error) {
	var in, backend string
	err := parameters{"pool": name(&in), "backend": name(&backend)}.take(c.r.URL.RawQuery)
	if err != nil {
		return 0, nil, err
	}
	pools, err := s.pools(in, backend)
	if err != nil {
		return 0, nil, err
	}
	s.orders.Lock()
	defer s.orders.Unlock()
	done := forgotten{[]pool.Difference{}}
	for _, p := range pools {
		undone, err := p.Forget(backend)
		if err != nil {
			return 0, nil, missing(p, err)
		}
		done.Forgotten = append(done.Forgotten, undone...)
	}
	s.proxy.Prune(s.src.Pools())
	s.changed(c, "overrides forgotten", zap.String("pool", in), zap.String("backend", backend),
		zap.Strings("changes", described(done.Forgotten)))
	return http.StatusOK, done, nil
}

// pools returns one pool if a pool or a backend is named, else all.
func (s *Server) pools(in, backend string) ([]*pool.Pool, error) {
	if in == "" && backend == "" {
		return s.src.Pools(), nil
	}
	p, err := s.pool(in)
	if err != nil {
		return nil, err
	}
	return []*pool.Pool{p}, nil
}

// maxDescribed bounds the changes that one line of the log lists. Chosen.
const maxDescribed = 100

// described says each in a line: what ran, and what the file has.
func described(ds []pool.Difference) []string {
	lines := make([]string, 0, min(len(ds), maxDescribed))
	for i, d := range ds {
		if i == maxDescribed {
			return append(lines, fmt.Sprint("and ", len(ds)-i, " more"))
		}
		lines = append(lines, fmt.Sprint("pool ", d.Pool, ": ", d.String()))
	}
	return lines
}
