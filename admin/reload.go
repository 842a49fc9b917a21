package admin

import (
	"bytes"
	"errors"
	"net/http"

	"sluice/admin/internal/answer"
	"sluice/pool"
)

// maxPlan bounds the text of a configuration that a dry run is asked for. Chosen:
// 4 MiB hold some 40,000 backends.
const maxPlan = 4 << 20

// reload applies the file. Nothing has changed if it answers with an error, or
// if it was a dry run.
func (s *Server) reload(c *call) (int, any, error) {
	dry, err := askedDry(c.r)
	if err != nil {
		return 0, nil, err
	}
	text, err := c.bodyOf(maxPlan, "a larger configuration can only be checked, by sluice check")
	switch {
	case err != nil:
		return 0, nil, err
	case !dry && len(bytes.TrimSpace(text)) > 0:
		return 0, nil, answer.Refuse(http.StatusBadRequest,
			"a reload reads the file of the process; a body is for dry_run=true alone")
	}
	var done Reloaded
	if dry {
		done, err = s.src.Plan(c.r.Context(), text)
	} else {
		done, err = s.src.Reload(c.r.Context(), c.by())
	}
	if err != nil {
		return http.StatusUnprocessableEntity, mistakes(dry, err), nil
	}
	if done.Changes == nil {
		done.Changes = []string{}
	}
	if done.Plan == nil {
		done.Plan = []pool.Edit{}
	}
	return http.StatusOK, done, nil
}

// dryRun reports whether a request for a reload changes nothing. Only this
// writing counts: the guard and the reload must agree on it.
func dryRun(r *http.Request) bool {
	return r.URL.EscapedPath() == "/reload" && r.URL.RawQuery == "dry_run=true"
}

// askedDry is dryRun for the reload itself. What it does not know is refused: who
// meant a dry run must not get another.
func askedDry(r *http.Request) (bool, error) {
	switch r.URL.RawQuery {
	case "", "dry_run=false":
		return false, nil
	case "dry_run=true":
		return true, nil
	}
	return false, answer.Refuse(http.StatusBadRequest, "unknown query; write ?dry_run=true, or nothing")
}

// mistakes lists everything that err holds.
func mistakes(dry bool, err error) answer.Problem {
	p := answer.Problem{Error: "the configuration was not applied: " + err.Error()}
	if dry {
		p.Error = "the configuration could not be applied: " + err.Error()
	}
	var several Errors
	if errors.As(err, &several) {
		p.Errors = several
	}
	if len(p.Errors) == 0 {
		p.Errors = []string{err.Error()}
	}
	return p
}
