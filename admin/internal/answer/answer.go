// Package answer writes the JSON answers of the admin side, and says which
// status an error becomes. It keeps no state.
package answer

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

// Refuse returns an error that is answered with that status.
func Refuse(status int, format string, args ...any) error {
	return &fault{status, fmt.Sprintf(format, args...)}
}

// Refused reports whether err was made by Refuse.
func Refused(err error) bool { return errors.As(err, new(*fault)) }

// Problem is the body of every error.
type Problem struct {
	Error  string   `json:"error"`
	Errors []string `json:"errors,omitempty"`
}

// StatusOf returns the status that answers err.
func StatusOf(err error) int {
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

// Error writes err as the answer.
func Error(w http.ResponseWriter, err error) {
	JSON(w, StatusOf(err), Problem{Error: err.Error()})
}

// JSON writes an answer, one without a body if body is nil.
func JSON(w http.ResponseWriter, status int, body any) {
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
