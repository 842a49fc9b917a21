package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sluice/pool"
)

// fault is an error that is an answer: a status, and what to do about it.
type fault struct {
	status int
	text   string
}

func (f *fault) Error() string { return f.text }

// refuse returns a fault.
func refuse(status int, format string, args ...any) error {
	return &fault{status, fmt.Sprintf(format, args...)}
}

// problem is the body of every error.
type problem struct {
	Error  string   `json:"error"`
	Errors []string `json:"errors,omitempty"`
}

// statusOf returns the status that answers err.
func statusOf(err error) int {
	var f *fault
	switch {
	case errors.As(err, &f):
		return f.status
	case errors.Is(err, pool.ErrExists):
		return http.StatusConflict
	case errors.Is(err, pool.ErrNotFound):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

// answerError writes err as the answer.
func answerError(w http.ResponseWriter, err error) {
	answer(w, statusOf(err), problem{Error: err.Error()})
}

// answer writes a JSON answer, or none if body is nil.
func answer(w http.ResponseWriter, status int, body any) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if body == nil {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // the client is gone
}
