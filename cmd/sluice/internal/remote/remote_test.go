package remote

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const rest = `
[[frontend]]
name = "web"
listen = "127.0.0.1:0"
pool = "p"
[[pool]]
name = "p"
[[pool.backend]]
address = "127.0.0.1:9"
`

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReach(t *testing.T) {
	for at, want := range map[string]string{
		"127.0.0.1:8404":            "http://127.0.0.1:8404",
		":8404":                     "http://127.0.0.1:8404",
		"0.0.0.0:8404":              "http://127.0.0.1:8404",
		"[::]:8404":                 "http://127.0.0.1:8404",
		"[::1]:8404":                "http://[::1]:8404",
		"lb.example.com:8404":       "http://lb.example.com:8404",
		"https://lb.example.com/x/": "https://lb.example.com/x",
		"unix:/run/x.sock":          "http://localhost",
		"":                          "the admin side is off",
		"127.0.0.1:0":               "port 0",
		"http://":                   "is no URL",
		"8404":                      "is no address",
	} {
		got, err := reach(at, &http.Transport{})
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: got %q, want %q", at, got, want)
		}
	}
}

// The way to the admin side and the token are the configuration's unless the
// command line says otherwise.
func TestTokenIsSent(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		fmt.Fprint(w, `{"n": 3}`)
	}))
	defer s.Close()
	health := "[pool.health]\nprobe = \"redis\"\npassword_file = \"/does/not/exist\"\n" // of those who ask nobody needs it
	secret := file(t, "tokens", "read eyes-eyes-eyes-eyes\noperate hands-hands-hands\n")
	eyes := file(t, "eyes", "read only-only-only-only\n")
	text := file(t, "config.toml", fmt.Sprintf("[admin]\nlisten = %q\ntoken_file = %q\n", s.Listener.Addr(), secret)+rest+health)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Config: text}, "Bearer hands-hands-hands"},
		{Options{Config: text, TokenFile: eyes}, "Bearer only-only-only-only"},
		{Options{Config: "/does/not/exist", Admin: s.URL}, ""},
	} {
		client, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct{ N int }
		if err := client.Call(t.Context(), "GET", "/status", nil, &answer); err != nil || answer.N != 3 || got != c.want {
			t.Errorf("%+v: got %v, %+v and token %q, want %q", c.o, err, answer, got, c.want)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"host": %q}`, r.Host)
	})}}
	s.Start()
	defer s.Close()
	c, err := New(Options{Admin: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Host string }
	if err := c.Call(t.Context(), "GET", "/", nil, &answer); err != nil || answer.Host != "localhost" {
		t.Errorf("got %v, %+v", err, answer)
	}
}

func TestErrorsAreTheBalancersOwn(t *testing.T) {
	answers := map[string]string{
		"/ours":   `{"error": "no pool \"x\"; there is p"}`,
		"/others": "<html>\nnginx",
		"/moved":  "",
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/ours", http.StatusFound)
			return
		}
		w.WriteHeader(404)
		fmt.Fprint(w, answers[r.URL.Path])
	}))
	c, err := New(Options{Admin: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/ours":   `no pool "x"; there is p`,
		"/others": "answered with status 404: <html>",
		"/moved":  `answered with status 302: <a href="/ours">Found</a>.`,
	} {
		var r *Refused
		if err := c.Call(t.Context(), "GET", path, nil, nil); !errors.As(err, &r) || r.Text != want {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
	s.Close()
	if err := c.Call(t.Context(), "GET", "/ours", nil, nil); err == nil || !strings.Contains(err.Error(), "no answer of the admin side") {
		t.Errorf("got %v of a server that is gone", err)
	}
	for _, o := range []Options{{Config: "/does/not/exist"}, {Admin: s.URL, TokenFile: "/does/not/exist"}} {
		if _, err := New(o); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
