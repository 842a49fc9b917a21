package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/l4/session"
)

// sessionsOf makes the rig's sessions those rows, which orders then end.
func (r *rig) sessionsOf(rows ...session.Row) (asked *[]string) {
	asked = new([]string)
	r.sessions = func(m session.Match, after session.Key, most int) ([]session.Row, bool) {
		*asked = append(*asked, fmt.Sprintf("list %v after %v, %d", m, after, most))
		var found []session.Row
		for _, row := range rows {
			if row.Key.Compare(after) > 0 && (m.Key.Number == 0 || m.Key == row.Key) {
				found = append(found, row)
			}
		}
		return found[:min(most, len(found))], len(found) > most
	}
	r.end = func(m session.Match) int {
		*asked = append(*asked, fmt.Sprintf("end %v", m))
		if m.Key.Number > 0 && (len(rows) == 0 || m.Key != rows[0].Key) {
			return 0
		}
		return len(rows)
	}
	return asked
}

// ask returns the status and the body of an answer.
func (r *rig) ask(method, path, body string, headers ...string) (int, string) {
	r.t.Helper()
	p := r.do(method, path, body, headers...)
	return p.StatusCode, p.text
}

func row(number uint64) session.Row {
	return session.Row{
		Key: session.Key{Process: "cafe", Number: number}, Frontend: "f", Listen: "127.0.0.1:5432", Pool: "p", Backend: "A",
		Client: netip.MustParseAddrPort("192.0.2.7:4711"), Address: "10.0.0.1:80", Started: time.Unix(1, 0).UTC(), State: "relaying",
		ToBackend: 70, ToClient: 900, Age: 4 * time.Second, Idle: 1500 * time.Microsecond, HalfClosed: true,
		Links: [2]session.Link{{Known: true, RTT: 250 * time.Microsecond, Retransmits: 3}, {}},
	}
}

func TestSessionsAreListedInPages(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "p"))
	second := row(2)
	second.Peer, second.Client = second.Client, netip.AddrPort{}
	r.sessionsOf(row(1), second, row(3))
	body := r.do("GET", "/sessions?limit=2", "").text
	const want = `{"sessions":[{"id":"cafe-1","frontend":"f","listen":"127.0.0.1:5432","client":"192.0.2.7:4711","pool":"p","backend":"A",` +
		`"address":"10.0.0.1:80","started":"1970-01-01T00:00:01Z","state":"relaying","to_backend":70,"to_client":900,"age_ms":4000,"idle_ms":1,` +
		`"half_closed":true,"client_tcp":{"rtt_ms":0.25,"retransmits":3}},{"id":"cafe-2","frontend":"f","listen":"127.0.0.1:5432","client":"",` +
		`"peer":"192.0.2.7:4711","pool":"p","backend":"A","address":"10.0.0.1:80","started":"1970-01-01T00:00:01Z","state":"relaying",` +
		`"to_backend":70,"to_client":900,"age_ms":4000,"idle_ms":1,"half_closed":true,"client_tcp":{"rtt_ms":0.25,"retransmits":3}}],"next":"cafe-2"}`
	if got := strings.TrimSpace(body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var page listing
	body = r.do("GET", "/sessions?limit=2&after=cafe-2", "").text
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Sessions) != 1 || page.Sessions[0].ID != "cafe-3" || page.Next != nil {
		t.Errorf("the last page is %s (%v)", body, err)
	}
	if body = r.do("GET", "/sessions?after=cafe-3", "").text; strings.TrimSpace(body) != `{"sessions":[],"next":null}` {
		t.Errorf("behind the last: %s", body)
	}
}

// A filter reaches the engine as it was meant, or is refused by its name.
func TestFiltersOfSessions(t *testing.T) {
	r := start(t, Settings{}, newPool(t, "p"))
	asked := r.sessionsOf(row(1))
	for query, want := range map[string]session.Match{
		"frontend=to%20web":          {Frontend: "to web"},
		"pool=p&backend=10.0.0.1:80": {Pool: "p", Backend: "10.0.0.1:80"},
		"client=192.0.2.7":           {Client: netip.MustParsePrefix("192.0.2.7/32")},
		"client=192.0.2.7/24":        {Client: netip.MustParsePrefix("192.0.2.0/24")},
		"client=::ffff:192.0.2.7":    {Client: netip.MustParsePrefix("192.0.2.7/32")},
		"client=2001:db8::/32":       {Client: netip.MustParsePrefix("2001:db8::/32")},
		"min_age=90s&min_idle=1m30s": {MinAge: 90 * time.Second, MinIdle: 90 * time.Second},
		"state=dialing":              {State: "dialing"},
	} {
		*asked = nil
		status, body := r.ask("GET", "/sessions?"+query, "")
		deleted, answer := r.ask("DELETE", "/sessions?"+query, "")
		exact := []string{fmt.Sprintf("list %v after %v, 1000", want, session.Key{}), fmt.Sprintf("end %v", want)}
		if status != 200 || deleted != 200 || strings.TrimSpace(answer) != `{"ended":1}` || fmt.Sprint(*asked) != fmt.Sprint(exact) {
			t.Errorf("%s: got %d %s, %d %s, asked %q, want %q", query, status, body, deleted, answer, *asked, exact)
		}
	}
	*asked = nil
	for query, name := range map[string]string{
		"backnd=A": "backnd", "backend=": "backend", "backend=A&backend=B": "backend", "client=here": "client", "client=10.0.0.0/33": "client",
		"client=fe80::1%25eth0": "client", "min_age=90": "min_age", "min_age=-1s": "min_age", "min_idle=x": "min_idle", "state=up": "state",
		"limit=0": "limit", "limit=1001": "limit", "limit=x": "limit", "after=x": "after", "after=cafe-0": "after",
	} {
		for _, method := range []string{"GET", "DELETE"} {
			if status, body := r.ask(method, "/sessions?"+query, ""); status != 400 || !strings.Contains(body, `parameter \"`+name+`\"`) {
				t.Errorf("%s %s: got %d %s", method, query, status, body)
			}
		}
	}
	for _, query := range []string{"", "?", "?min_age=0s", "?;", "?backend=A&all=true", "?all=yes"} {
		if status, body := r.ask("DELETE", "/sessions"+query, ""); status != 400 {
			t.Errorf("DELETE /sessions%s: got %d %s", query, status, body)
		}
	}
	if len(*asked) != 0 {
		t.Errorf("asked for %q", *asked)
	}
	if status, _ := r.ask("DELETE", "/sessions?all=true", ""); status != 200 || fmt.Sprint(*asked) != fmt.Sprintf("[end %v]", session.Match{}) {
		t.Errorf("all=true: got %d, asked %q", status, *asked)
	}
}

func TestSessionIsEnded(t *testing.T) {
	r := start(t, Settings{Tokens: tokens}, newPool(t, "p"))
	r.sessionsOf(row(1), row(2))
	for _, c := range []struct {
		path, token string
		want        int
		line        string
	}{
		{"/sessions/cafe-1", readToken, http.StatusForbidden, ""},
		{"/sessions?backend=A", readToken, http.StatusForbidden, ""},
		{"/sessions/cafe-1", operateToken, http.StatusNoContent,
			`session ended {"backend":"A","change":"state relaying -> ending","client":"192.0.2.7:4711","role":"operate","session":"cafe-1","status":204}`},
		{"/sessions/cafe-2", operateToken, http.StatusNotFound, ""}, // it ends already
		{"/sessions/cafe-9", operateToken, http.StatusNotFound, ""},
		{"/sessions/cafe", operateToken, http.StatusNotFound, ""},
		{"/sessions/", operateToken, http.StatusNotFound, ""},
		{"/sessions?backend=A", operateToken, http.StatusOK,
			`sessions ended {"change":"2 sessions -> ending","filter":"backend=A","role":"operate","status":200}`},
	} {
		r.logs.TakeAll()
		status, body := r.ask("DELETE", c.path, "", c.token)
		var made []string
		for _, l := range r.lines() {
			if !strings.HasPrefix(l, "change refused") {
				made = append(made, l)
			}
		}
		if status != c.want || strings.Join(made, "|") != c.line {
			t.Errorf("%s: got %d %s, log %q, want %d and %q", c.path, status, body, made, c.want, c.line)
		}
	}
	if status, _ := r.ask("GET", "/sessions", "", readToken); status != http.StatusOK {
		t.Errorf("a read token: got %d", status)
	}
}
