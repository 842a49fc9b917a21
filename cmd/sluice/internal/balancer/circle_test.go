package balancer

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"sluice/admin"
	"sluice/pool"
)

// A backend at an address where the process itself listens would turn one
// client into sessions without end.
func TestAPIBackendWhereWeListen(t *testing.T) {
	text := frontendText("one", "p") + strings.Replace(frontendText("all", "q"), "127.0.0.1:0", ":0", 1) +
		poolText("p", "none") + poolText("q", "none")
	b, _, stop := started(t, text)
	defer stop()
	port := func(frontend int) string {
		_, port, err := net.SplitHostPort(b.Frontends()[frontend].Listen)
		if err != nil {
			t.Fatal(err)
		}
		return port
	}
	p := b.view.Load().pools[0]
	for address, who := range map[string]string{
		b.Frontends()[0].Listen: "frontend one",
		"localhost:" + port(0):  "frontend one",
		"127.0.0.1:" + port(1):  "frontend all",
		"[::1]:" + port(1):      "frontend all",
		b.AdminAddr():           "admin of this process",
	} {
		err := b.add(p, pool.Spec{ID: "x", Address: address, Weight: 1})
		if !errors.Is(err, admin.ErrOwnAddress) || !strings.Contains(err.Error(), who) {
			t.Errorf("%s: got %v, want that %s listens there", address, err, who)
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		at := net.JoinHostPort(a.(*net.IPNet).IP.String(), port(1))
		if err := b.add(p, pool.Spec{ID: "x", Address: at, Weight: 1}); !errors.Is(err, admin.ErrOwnAddress) {
			t.Errorf("%s: got %v, want that frontend all listens there", at, err)
		}
	}
	if n := len(p.Status().Backends); n != 0 {
		t.Errorf("%d backends were added all the same", n)
	}
	if err := b.add(p, pool.Spec{ID: "x", Address: "127.0.0.2:" + port(0), Weight: 1}); err != nil {
		t.Errorf("another address of the same port: got %v", err)
	}
	if err := b.add(p, pool.Spec{ID: "x", Address: "127.0.0.2:1", Weight: 1}); !errors.Is(err, pool.ErrExists) {
		t.Errorf("the same id again: got %v, want %v", err, pool.ErrExists)
	}
}

// A reload may not begin to listen where the API has a backend: it is refused,
// unless the file takes that backend away or has it itself.
func TestReloadListensAtAnAPIBackend(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := ln.Addr().String()
	base := frontendText("one", "p") + poolText("p", "none")
	b, f, stop := started(t, base+poolText("q", "none"))
	defer stop()
	if err := b.add(b.view.Load().pools[0], pool.Spec{ID: "x", Address: at, Weight: 1}); err != nil {
		t.Fatal(err)
	}
	ln.Close()
	next := strings.Replace(frontendText("two", "q"), "127.0.0.1:0", at, 1)
	f.set(base + next + poolText("q", "none"))
	_, err = b.Reload(t.Context(), "test")
	want := fmt.Sprintf(`frontend two: listen on %s: it is the address of backend x of pool p`, at)
	if err == nil || !strings.Contains(err.Error(), want) || len(b.Frontends()) != 1 {
		t.Fatalf("got %v and frontends %+v, want an error with %s and those before", err, b.Frontends(), want)
	}
	if err := b.view.Load().pools[0].Remove("x"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Reload(t.Context(), "test"); err != nil {
		t.Errorf("without the backend: %v", err)
	}
}
