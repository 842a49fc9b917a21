package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// table is one table of the file. A key is read by the method for its type, which
// notes what is wrong with it and then returns the default.
type table struct {
	in     *input
	keys   *keys
	path   string         // as in lines: pool[0].health
	prefix string         // of keys in messages: pool "cache": health.
	values map[string]any // nil if the file does not have the table
}

// open returns a table after a look at the names of its keys.
func (in *input) open(k *keys, path, prefix string, values map[string]any) table {
	t := table{in, k, path, prefix, values}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if slices.Contains(k.known, key) {
			continue
		}
		_, isTable := values[key].(map[string]any)
		_, isTables := values[key].([]map[string]any)
		t.wrong(key, "%s", k.unknown(key, isTable || isTables))
	}
	return t
}

func (t table) has(key string) bool { _, ok := t.values[key]; return ok }

// wrong notes a mistake at a key, or at the table itself if key is empty.
func (t table) wrong(key, format string, args ...any) {
	t.in.add(t.line(key), t.at(key)+": "+fmt.Sprintf(format, args...))
}

// warn notes what is valid but unwise.
func (t table) warn(key, format string, args ...any) {
	t.in.warnings = append(t.in.warnings, note{t.line(key), t.at(key) + ": " + fmt.Sprintf(format, args...)})
}

// at is the path of a key in messages.
func (t table) at(key string) string {
	if key == "" {
		return strings.TrimRight(t.prefix, ".: ")
	}
	if len(key) > 128 {
		return t.prefix + quote(key)
	}
	return t.prefix + toml.Key{key}.String()
}

// line is where a key stands; for one that is missing, the nearest table that is
// in the file.
func (t table) line(key string) int {
	if line, ok := t.in.lines[join(t.path, key)]; ok && key != "" {
		return line
	}
	for path := t.path; path != ""; {
		if line, ok := t.in.lines[path]; ok {
			return line
		}
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
	return 1
}

// sub returns the table under key; an empty one if there is none.
func (t table) sub(key string) table {
	k, path, prefix := t.keys.table(key), join(t.path, key), t.prefix+key+"."
	switch v := t.values[key].(type) {
	case nil:
		return table{t.in, k, path, prefix, nil}
	case map[string]any:
		return t.in.open(k, path, prefix, v)
	case []map[string]any:
		t.wrong(key, "written as one of several; write %s, once", k.header)
		return t.in.open(k, element(path, 0), prefix, v[0])
	default:
		t.wrong(key, "got %s; a table is needed, written %s", described(v), k.header)
		return table{t.in, k, path, prefix, nil}
	}
}

// subs returns the tables of the array under key.
func (t table) subs(key string) []table {
	k, path := t.keys.table(key), join(t.path, key)
	var all []table
	switch v := t.values[key].(type) {
	case nil:
	case []map[string]any:
		for i, values := range v {
			all = append(all, t.in.open(k, element(path, i), t.named(k, i, values), values))
		}
	case []any:
		for i, one := range v {
			if values, ok := one.(map[string]any); ok {
				all = append(all, t.in.open(k, element(path, i), t.named(k, i, values), values))
				continue
			}
			t.wrong(key, "got %s; write one %s for each %s", described(one), k.header, key)
		}
	case map[string]any:
		t.wrong(key, "written as a single table; write %s, once for each %s", k.header, key)
		all = append(all, t.in.open(k, path, t.named(k, 0, v), v))
	default:
		t.wrong(key, "got %s; write one %s for each %s", described(v), k.header, key)
	}
	return all
}

// named is the prefix for keys of the i-th table of its kind.
func (t table) named(k *keys, i int, values map[string]any) string {
	for _, key := range k.label {
		// A URL may have a password in it.
		if name, ok := values[key].(string); ok && name != "" && !strings.Contains(name, "://") {
			return fmt.Sprintf("%s%s %s: ", t.prefix, k.name, quote(name))
		}
	}
	return fmt.Sprintf("%s%s %d: ", t.prefix, k.name, i+1)
}

// described is a value as a message shows it.
func described(v any) string {
	switch v := v.(type) {
	case string:
		return "the string " + quote(v)
	case int64:
		return fmt.Sprintf("the integer %d", v)
	case float64:
		return fmt.Sprintf("the float %v", v)
	case bool:
		return fmt.Sprintf("the boolean %t", v)
	case time.Time:
		return "a date or time"
	case map[string]any:
		return "a table"
	default:
		return "an array"
	}
}
