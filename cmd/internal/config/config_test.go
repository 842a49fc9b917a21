package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/admin"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/health"

	"github.com/hashicorp/go-multierror"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := newDocument().parsed(t)
	want := &Config{
		Process: Process{DrainTimeout: 25 * time.Second, Watch: true, Engine: "auto"},
		Log:     Log{Level: "info", Format: "console", Access: "all", LogEmpty: true},
		Admin: Admin{
			Listen: "127.0.0.1:8404",
			Mode:   0o600,
			Settings: admin.Settings{
				Proxy: admin.ProxySettings{Enabled: true, ResponseTimeout: time.Minute},
			},
		},
		Frontends: []Frontend{{
			Name: "f", Listen: "127.0.0.1:0", Mode: 0o660, Pool: "p",
			Admission: Admission{Header: "off", HeaderTimeout: 5 * time.Second},
			Settings: session.Settings{
				Attempts:         3,
				ConnectTimeout:   2 * time.Second,
				DialBudget:       6 * time.Second,
				HalfCloseTimeout: time.Minute,
				KeepAlive:        session.KeepAlive{Idle: time.Minute, Interval: 10 * time.Second, Count: 6},
				AgeJitter:        20,
			},
		}},
		Pools: []Pool{{
			Name: "p",
			Config: pool.Config{
				Strategy: pool.Strategy{Name: "round_robin"},
				Policy: pool.Policy{
					MaxFailures: 3, RetryAfter: 10 * time.Second, QueueFor: 5 * time.Second, Probed: true, Init: pool.InitUp,
					BackupMin: 1, ZoneMin: 1,
				},
				Backends: []pool.Spec{{ID: "127.0.0.1:7001", Address: "127.0.0.1:7001", Weight: 1}},
			},
			Probe: Probe{Kind: "tcp", Path: "/", Status: []StatusRange{{200, 399}}, Role: "any", TLS: TLS{Mode: "off"}},
			Health: health.Policy{
				Interval: 2 * time.Second, DownInterval: time.Second, Timeout: time.Second, Rise: 2, Fall: 3,
			},
			ResolveEvery: 10 * time.Second,
			Outliers: Outliers{
				Interval: 10 * time.Second, MinSessions: 20, FailureShare: 50, Early: time.Second, DialFactor: 5,
				MaxEjected: 30, EjectFor: 30 * time.Second, EjectMax: 5 * time.Minute,
			},
		}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestMinimalFileHasNoWarnings(t *testing.T) {
	t.Parallel()
	c, err := Parse("test.toml", []byte(newDocument().String()))
	if err != nil || len(c.Warnings) > 0 {
		t.Errorf("got %+v, %v, want no warnings", c, err)
	}
}

func TestPoolOfProxyAloneIsUsed(t *testing.T) {
	t.Parallel()
	for enabled, want := range map[string]bool{"true": false, "false": true} {
		d := newDocument().set("[admin.proxy]", "pool", `"web"`).set("[admin.proxy]", "enabled", enabled)
		text := d.String() + "[[pool]]\nname = \"web\"\n[[pool.backend]]\naddress = \"127.0.0.1:8081\"\n"
		c, err := Parse("test.toml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(strings.Join(c.Warnings, "\n"), "no frontend uses it"); got != want {
			t.Errorf("got warnings %q with enabled = %s, want one of an unused pool: %t", c.Warnings, enabled, want)
		}
	}
}

func TestStrategyIsReady(t *testing.T) {
	t.Parallel()
	c, err := Parse("test.toml", []byte(newDocument().String()))
	if err != nil {
		t.Fatal(err)
	}
	if c.Pools[0].Config.Strategy.Build == nil {
		t.Error("got a strategy that builds nothing")
	}
}

func TestTiesDefaultToFirst(t *testing.T) {
	t.Parallel()
	c := newDocument().set("[[pool]]", "strategy", `"least_connections"`).parsed(t)
	if got := c.Pools[0].Config.Strategy.Ties; got != "first" {
		t.Errorf("got ties %q, want first", got)
	}
}

func TestKeepaliveKeepsTheRest(t *testing.T) {
	t.Parallel()
	c := newDocument().set("[[frontend]]", "keepalive", `{ idle = "0s", count = 2 }`).parsed(t)
	want := session.KeepAlive{Idle: 0, Interval: 10 * time.Second, Count: 2}
	if got := c.Frontends[0].Settings.KeepAlive; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryMistakeIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDocument().set("[process]", "drain_timeout", "25").set("[log]", "levle", `"info"`).
		set("[[frontend]]", "attempts", `"3"`).set("[[frontend]]", "pool", `"q"`).
		set("[[pool.backend]]", "weight", "-1")
	_, err := Parse("test.toml", []byte(d.String()))
	var all *multierror.Error
	if !errors.As(err, &all) || len(all.Errors) != 5 || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("got %v, want five errors on five lines", err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.toml")
	if _, err := Load(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v for a missing file, want %v", err, fs.ErrNotExist)
	}
	if _, err := Load(filepath.Dir(file)); err == nil {
		t.Error("got no error for a directory")
	}
	if err := os.WriteFile(file, []byte(newDocument().String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Load(file); err != nil || len(c.Pools) != 1 {
		t.Errorf("got %+v, %v, want one pool", c, err)
	}
	if err := os.WriteFile(file, []byte("lisen = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); err == nil || !strings.HasPrefix(err.Error(), file+":1: ") {
		t.Errorf("got %v, want it to start with the path and line 1", err)
	}
}
