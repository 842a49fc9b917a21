package admin

import (
	"net/http"

	"sluice/admin/metrics"
	"sluice/pool"
)

// scrape shows the metrics.
func (s *Server) scrape(*call) (int, any, error) { return http.StatusOK, s.page, nil }

// state is what the metrics tell of this moment.
func (s *Server) state() metrics.State {
	about := s.src.About()
	return metrics.State{
		Process: metrics.Process{
			Version:       about.Version,
			Engine:        about.Engine,
			Generation:    about.Generation,
			Reloaded:      about.LastReload.At,
			ReloadGood:    about.LastReload.Successful,
			Sessions:      about.Sessions,
			SessionsMax:   about.Limit,
			LogDropped:    about.LogDropped,
			StateSaved:    about.StateFile.Saved,
			StateFailures: about.StateFile.Failures,
		},
		Frontends: s.frontends(),
		Pools:     statusOf(s.src.Pools()),
		Leaving:   statusOf(s.src.Leaving()),
	}
}

func statusOf(pools []*pool.Pool) (list []pool.Status) {
	for _, p := range pools {
		list = append(list, p.Status())
	}
	return list
}
