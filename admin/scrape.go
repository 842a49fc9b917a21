package admin

import (
	"net/http"
	"slices"

	"sluice/admin/metrics"
	"sluice/pool"
)

// scrape shows the metrics.
func (s *Server) scrape(*call) (int, any, error) { return http.StatusOK, s.page, nil }

// state is what the metrics tell of this moment.
func (s *Server) state() metrics.State {
	about := s.src.About()
	pools := statusOf(s.src.Pools())
	// A reload in between may have moved one from here to there.
	leaving := slices.DeleteFunc(statusOf(s.src.Leaving()), func(l pool.Status) bool {
		return slices.ContainsFunc(pools, func(p pool.Status) bool { return p.Name == l.Name })
	})
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
		Pools:     pools,
		Leaving:   leaving,
	}
}

func statusOf(pools []*pool.Pool) (list []pool.Status) {
	for _, p := range pools {
		list = append(list, p.Status())
	}
	return list
}
