package state

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/pool"
	"sluice/pool/balance"
)

// filled sets every field of v to something, so that one that is not written
// down is missed.
func filled(v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, *n*1e6, time.UTC)))
		return
	case pool.Strategy:
		s, _ := balance.ByName("least_connections", []string{"first", "rotate"}[*n%2])
		s.Build = nil
		v.Set(reflect.ValueOf(s))
		return
	case pool.Admin:
		v.Set(reflect.ValueOf(pool.Admin(1 + *n%2)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		filled(v.Index(0), n)
		filled(v.Index(1), n)
	case reflect.Int:
		v.SetInt(int64(1 + *n%2))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("unix:/%d", *n)) // an id as well as an address
	default:
		panic("no value for " + v.Type().String())
	}
}

func TestEverythingIsWrittenDown(t *testing.T) {
	var o pool.Overrides
	filled(reflect.ValueOf(&o).Elem(), new(int))
	text := encode("/c", map[string]pool.Overrides{"p": o})
	all, err := decode(text)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	back := all["p"]
	back.Strategy.InForce.Build, back.Strategy.File.Build = nil, nil
	if !reflect.DeepEqual(back, o) {
		t.Errorf("got  %+v\nwant %+v\nof %s", back, o, text)
	}
	back.Strategy.InForce, back.Strategy.File = all["p"].Strategy.InForce, all["p"].Strategy.File
	if again := encode("/c", all); string(again) != string(text) {
		t.Errorf("written again it is\n%s\nand was\n%s", again, text)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := func() string {
		var o pool.Overrides
		filled(reflect.ValueOf(&o).Elem(), new(int))
		return string(encode("/c", map[string]pool.Overrides{"p": o}))
	}()
	for from, to := range map[string]string{
		`"version": 1`:          `"version": 1, "colour": 3`,
		`"state": "`:            `"state": "no`,
		`"weight": 1`:           `"weight": 1001`,
		`"max_sessions": 2`:     `"max_sessions": -2`,
		`"send_proxy": 2`:       `"send_proxy": 3`,
		`"id": "unix:/`:         `"id": "\u0000unix:/`,
		`"address": "unix:/`:    `"address": "`,
		`"least_connections"`:   `"luck"`,
		"\n}\n":                 "\n",
		`"since": "2026`:        `"since": "26`,
		`"ties": "rotate"`:      `"ties": "often"`,
		"\n}\n\x00":             "",
		`"name": "least_conne`:  `"name": 3, "x": "`,
		`"backends": [`:         `"backends": [{"id": "a", "address": "a:1", "state": "ready"}, {"id": "a", "address": "b:1", "state": "ready"},`,
		"  \"config\": \"/c\",": "",
	} {
		bad := strings.Replace(good+"\x00", from, to, 1)
		if bad == good+"\x00" {
			t.Errorf("%q is not in\n%s", from, good)
			continue
		}
		if from != "  \"config\": \"/c\"," {
			bad = strings.TrimSuffix(bad, "\x00")
		}
		_, err := decode([]byte(bad))
		if !errors.As(err, new(broken)) {
			t.Errorf("%q -> %q: got %v", from, to, err)
		}
	}
	for n := range len(good) - 1 {
		if _, err := decode([]byte(good[:n])); !errors.As(err, new(broken)) {
			t.Fatalf("cut after %d bytes: got %v", n, err)
		}
	}
}

// Whatever the file holds, reading it does not panic, and what was read can be
// written and read again.
func FuzzDecode(f *testing.F) {
	var o pool.Overrides
	filled(reflect.ValueOf(&o).Elem(), new(int))
	f.Add(encode("/c", map[string]pool.Overrides{"p": o}))
	f.Add([]byte(`{"version": 1, "config": "/c", "pools": {"p": {}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		owner("/s", text)
		all, err := decode(text)
		if err != nil || len(all) == 0 {
			return
		}
		if _, err := decode(encode("/c", all)); err != nil {
			t.Errorf("%s\nwas read, but written again it is not: %v", text, err)
		}
	})
}
