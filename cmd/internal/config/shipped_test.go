package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const shipped = "../../../config.toml"

// setting is a line of the example that shows a default.
var setting = regexp.MustCompile(`(?m)^( *)# ([a-z_]+ = )`)

func exampleText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleLoads(t *testing.T) {
	t.Parallel()
	c, err := Load(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("got warnings %q, want none", c.Warnings)
	}
	var strategies []string
	for _, p := range c.Pools {
		strategies = append(strategies, strings.TrimSpace(p.Config.Strategy.Name+" "+p.Config.Strategy.Ties))
	}
	if want := []string{"least_connections rotate", "round_robin"}; !slices.Equal(strategies, want) {
		t.Errorf("got strategies %q, want %q", strategies, want)
	}
}

// What the comments show as defaults must be the defaults: with all of them live
// the Config is the same.
func TestExampleShowsTheDefaults(t *testing.T) {
	t.Parallel()
	text := exampleText(t)
	before, err := Parse(shipped, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	live := setting.ReplaceAllString(text, "$1$2")
	live = strings.ReplaceAll(live, "\nmode = ", "\n# mode = ") // not for a port
	after, err := Parse(shipped, []byte(live))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(withoutFuncs(before), withoutFuncs(after)) {
		t.Errorf("got\n%+v\nwant\n%+v", after, before)
	}
}

func TestExampleHasEveryKey(t *testing.T) {
	t.Parallel()
	where, err := scan(setting.ReplaceAllString(exampleText(t), "$1$2"))
	if err != nil {
		t.Fatal(err)
	}
	places := map[*keys]string{
		rootKeys: "", processKeys: "process.", logKeys: "log.", adminKeys: "admin.", proxyKeys: "admin.proxy.",
		frontendKeys: "frontend[0].", keepaliveKeys: "frontend[0].keepalive.", poolKeys: "pool[0].",
		healthKeys: "pool[0].health.", outlierKeys: "pool[0].outliers.", backendKeys: "pool[0].backend[0].",
	}
	for _, k := range everyKeys {
		for _, key := range k.known {
			if _, ok := where[places[k]+key]; !ok {
				t.Errorf("%s of %s is not in config.toml", key, k.header)
			}
		}
	}
}
