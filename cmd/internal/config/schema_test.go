package config

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// schema is a JSON Schema, as far as ours goes.
type schema struct {
	Description string
	Type        string
	Properties  map[string]*schema
	Additional  *bool `json:"additionalProperties"`
	Required    []string
	Items       *schema
	MinItems    int
	Enum        []string
	Pattern     string
	Minimum     *int64
	Maximum     *int64
	Default     any
}

func loadSchema(t *testing.T) *schema {
	t.Helper()
	text, err := os.ReadFile("../../../scripts/config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(schema)
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// of returns the part of s that describes a table of k.
func (s *schema) of(k *keys) *schema {
	if k.parent == nil {
		return s
	}
	p := s.of(k.parent)
	if p == nil || p.Properties[k.name] == nil {
		return nil
	}
	if p = p.Properties[k.name]; p.Items != nil {
		return p.Items
	}
	return p
}

// faults says what is wrong with a value, as an editor would.
func (s *schema) faults(at string, v any) (faults []string) {
	say := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	is := "object"
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if p := s.Properties[key]; p != nil {
				faults = append(faults, p.faults(at+"."+key, value)...)
			} else {
				say("no key %s", key)
			}
		}
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				say("%s is missing", key)
			}
		}
	case string:
		is = "string"
		if s.Enum != nil && !slices.Contains(s.Enum, v) || !regexp.MustCompile(s.Pattern).MatchString(v) {
			say("%q does not fit", v)
		}
	case int64:
		is = "integer"
		if s.Minimum == nil || v < *s.Minimum || v > *s.Maximum {
			say("%d is out of range", v)
		}
	case bool:
		is = "boolean"
	default:
		is = "array"
		list := reflect.ValueOf(v)
		for i := range list.Len() {
			faults = append(faults, s.Items.faults(fmt.Sprint(at, "[", i, "]"), list.Index(i).Interface())...)
		}
		if list.Len() < s.MinItems {
			say("too few")
		}
	}
	if s.Type != is {
		say("is a %s, want a %s", is, s.Type)
	}
	return faults
}

// with returns a document in which a key can be set, and one in which it is.
func with(k *keys, key, value string) (without, set document) {
	without, set = newDocument(), newDocument().set(k.header, key, value)
	if n, ok := needs[k.header+"."+key]; ok {
		without.set(n[0], n[1], n[2])
		set.set(n[0], n[1], n[2])
	}
	return without, set
}

// accepted reports whether a file with that value is read.
func accepted(k *keys, key, value string) bool {
	_, d := with(k, key, value)
	_, err := Parse("test.toml", []byte(d.String()))
	return err == nil
}

// tomlOf writes a value of the schema as the file has it. JSON is TOML here.
func tomlOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The schema has each key that the decoder knows, and no other.
func TestSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	root := loadSchema(t)
	for _, k := range everyKeys {
		s := root.of(k)
		if s == nil {
			t.Errorf("%s is not in the schema", k.header)
			continue
		}
		if s.Additional == nil || *s.Additional || s.Description == "" {
			t.Errorf("%s lets other keys in, or has no description", k.header)
		}
		for _, key := range k.known {
			if p := s.Properties[key]; p == nil || p.Description == "" || p.Type == "" {
				t.Errorf("%s.%s is not in the schema, or has no description or type", k.header, key)
			}
		}
		for key := range s.Properties {
			if !slices.Contains(k.known, key) {
				t.Errorf("%s.%s is in the schema alone", k.header, key)
			}
		}
		for _, key := range s.Required {
			d := newDocument()
			delete(d, "[["+key+"]]") // of the root
			d[k.header] = slices.DeleteFunc(d[k.header], func(line string) bool { return strings.HasPrefix(line, key+" = ") })
			if _, err := Parse("test.toml", []byte(d.String())); err == nil {
				t.Errorf("%s.%s can be left out, says the decoder", k.header, key)
			}
		}
	}
}

// What the schema says of a key's default, words and bounds is what the decoder
// holds.
func TestSchemaIsWhatTheDecoderHolds(t *testing.T) {
	t.Parallel()
	root := loadSchema(t)
	eachKey(t, func(t *testing.T, k *keys, key, value string) {
		s := root.of(k).Properties[key]
		var sample map[string]any
		if _, err := toml.Decode("x = "+value, &sample); err != nil {
			t.Fatal(err)
		}
		for _, f := range s.faults(key, sample["x"]) {
			t.Errorf("the schema refuses %s = %s: %s", key, value, f)
		}
		if s.Default == nil && key != "id" && !slices.Contains(root.of(k).Required, key) {
			t.Error("no default")
		}
		if s.Default != nil {
			without, set := with(k, key, tomlOf(t, s.Default))
			if !reflect.DeepEqual(without.parsed(t), set.parsed(t)) {
				t.Errorf("%v is not the default", s.Default)
			}
		}
		checkWords(t, s, k, key)
		checkBounds(t, s, k, key)
	})
}

// checkWords holds an enumeration against what the decoder says of a wrong word.
func checkWords(t *testing.T, s *schema, k *keys, key string) {
	t.Helper()
	if s.Type != "string" {
		return
	}
	_, d := with(k, key, `"no-such-word"`)
	_, err := Parse("test.toml", []byte(d.String()))
	if err == nil || !strings.Contains(err.Error(), `unknown `+key+` "no-such-word"; use `) {
		if s.Enum != nil {
			t.Errorf("the decoder takes any word, or says %v", err)
		}
		return
	}
	_, list, _ := strings.Cut(err.Error(), "; use ")
	list, _, _ = strings.Cut(list, "\n")
	var words []string
	for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(list, -1) {
		words = append(words, m[1])
	}
	enum := slices.DeleteFunc(slices.Clone(s.Enum), func(w string) bool { return w == "" }) // the same as none
	slices.Sort(words)
	slices.Sort(enum)
	if !slices.Equal(words, enum) {
		t.Errorf("the decoder takes %q, the schema %q", words, enum)
	}
}

func checkBounds(t *testing.T, s *schema, k *keys, key string) {
	t.Helper()
	if s.Type != "integer" {
		return
	}
	for value, want := range map[int64]bool{*s.Minimum: true, *s.Maximum: true, *s.Minimum - 1: false, *s.Maximum + 1: false} {
		if got := accepted(k, key, fmt.Sprint(value)); got != want {
			t.Errorf("%d: the decoder takes it: %t, the schema: %t", value, got, want)
		}
	}
}

// The shipped file is valid, and what is wrong is seen.
func TestSchemaTakesTheExample(t *testing.T) {
	t.Parallel()
	root := loadSchema(t)
	for text, want := range map[string]bool{
		exampleText(t): true,
		strings.Replace(exampleText(t), "[admin.proxy]", "[admin.proxi]", 1):                         false,
		strings.Replace(exampleText(t), "weight = 3", "weight = \"3\"", 1):                           false,
		strings.Replace(exampleText(t), `strategy = "round_robin"`, `strategy = "round"`, 1):         false,
		strings.Replace(exampleText(t), `pool = "redis"`, "pool = \"redis\"\nidle_timeout = 5", 1):   false,
		strings.Replace(exampleText(t), `pool = "redis"`, "pool = \"redis\"\nidle_timeout=\"5\"", 1): false,
		strings.Replace(exampleText(t), `listen = "127.0.0.1:8080"`, "", 1):                          false,
	} {
		var v map[string]any
		if _, err := toml.Decode(text, &v); err != nil {
			t.Fatal(err)
		}
		if faults := root.faults("", v); (len(faults) == 0) != want {
			t.Errorf("got %q, want none: %t", faults, want)
		}
	}
}
