package admin

import (
	"strings"
	"testing"

	"sluice/admin/internal/answer"
)

// A dry run changes nothing, so that reading is enough for it; only this exact
// query is one, and what is close to it is refused rather than carried out.
func TestDryRunOfAReload(t *testing.T) {
	reader, operator := "Authorization: Bearer read-secret-0123", "Authorization: Bearer operate-secret-0123"
	r := start(t, Settings{Tokens: []Token{{Secret: "read-secret-0123"}, {Secret: "operate-secret-0123", Operate: true}}}, newPool(t, "web"))
	reloads := 0
	r.reloaded = func(string) (Reloaded, error) { reloads++; return Reloaded{Generation: 2}, nil }
	large := strings.Repeat("#", maxPlan+1)
	for _, c := range []struct {
		query, body string
		header      string
		status      int
		text        string
	}{
		{"?dry_run=true", "", reader, 200, `{"generation":1,"dry_run":true,"changes":["0 bytes"],"plan":[]}`},
		{"?dry_run=true", "[[frontend]]", reader, 200, "12 bytes"},
		{"?dry_run=true", large[:maxPlan], operator, 200, "4194304 bytes"},
		{"?dry_run=true", large, operator, 413, "larger than 4194304"},
		{"?dry_run=true", "", "Authorization: Bearer wrong", 200, ""}, // loopback: reading needs no token
		{"?dry_run=true", "", "Origin: http://evil.example", 403, "another site"},
		{"?dry_run=false", "", reader, 403, "may read only"},
		{"", "", reader, 403, "may read only"},
		{"?dry_run=1", "", operator, 400, "unknown query"},
		{"?dry_run=false&dry_run=true", "", operator, 400, "unknown query"},
		{"?dryrun=true", "", operator, 400, "unknown query"},
		{"", "[[frontend]]", operator, 400, "reads the file of the process"},
	} {
		r.do("POST", "/reload"+c.query, c.body, c.header).want(t, c.status, c.text)
	}
	if reloads != 0 {
		t.Fatalf("got %d reloads of dry runs and refusals", reloads)
	}
	r.do("POST", "/reload?dry_run=false", "", operator).want(t, 200, `"generation":2`)
	r.do("POST", "/reload", "\n", operator).want(t, 200, `"generation":2`)
	if reloads != 2 {
		t.Errorf("got %d reloads, want 2", reloads)
	}
	r.unplanned = Errors{"line 1: x", "line 2: y"}
	p := decode[answer.Problem](t, r.do("POST", "/reload?dry_run=true", "", reader).want(t, 422, "could not be applied"))
	if len(p.Errors) != 2 {
		t.Errorf("got %+v, want both mistakes", p)
	}
}
