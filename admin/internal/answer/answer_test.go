package answer

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"

	"sluice/pool"
)

func TestErrorAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err     error
		status  int
		text    string
		refused bool
	}{
		{Refuse(418, "no %s", "<tea>"), 418, `{"error":"no <tea>"}`, true},
		{fmt.Errorf("around: %w", Refuse(400, "it")), 400, `{"error":"around: it"}`, true},
		{fmt.Errorf("backend %w", pool.ErrExists), 409, `{"error":"backend is configured already"}`, false},
		{fmt.Errorf("%w: x", pool.ErrNotFound), 404, `{"error":"no such backend: x"}`, false},
		{errors.New("else"), 500, `{"error":"else"}`, false},
	} {
		w := httptest.NewRecorder()
		Error(w, c.err)
		if w.Code != c.status || w.Body.String() != c.text+"\n" || Refused(c.err) != c.refused {
			t.Errorf("got %d %q, refused %t for %v; want %d %s, %t", w.Code, w.Body, Refused(c.err), c.err, c.status, c.text, c.refused)
		}
		if w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("got header %v", w.Header())
		}
	}
}

func TestAnswerWithoutABody(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	JSON(w, 204, nil)
	if w.Code != 204 || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "" {
		t.Errorf("got %d %q with %v; want 204 alone", w.Code, w.Body, w.Header())
	}
}
