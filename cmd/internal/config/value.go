package config

import (
	"cmp"
	"slices"

	"sluice/pool"
)

// text reads a string.
func (t table) text(key, absent string) string {
	switch v := t.values[key].(type) {
	case nil:
		return absent
	case string:
		return v
	default:
		t.wrong(key, "got %s; a string is needed", described(v))
		return absent
	}
}

// required reads a string that must be there and not be empty. It reports
// false, and notes why, if there is none.
func (t table) required(key string) (string, bool) {
	text := t.text(key, "")
	switch {
	case !t.has(key):
		t.wrong(key, "missing; every %s needs one", t.keys.header)
	case t.values[key] == "":
		t.wrong(key, "empty; every %s needs one", t.keys.header)
	}
	return text, text != ""
}

// checkName notes that a name has a wrong form.
func (t table) checkName(key, name string) {
	if err := pool.CheckName(name); err != nil {
		t.wrong(key, "%v", err)
	}
}

// word reads one of a few words.
func (t table) word(key, absent string, known []string) string {
	w, ok := t.values[key].(string)
	if !t.has(key) || slices.Contains(known, w) {
		return cmp.Or(w, absent)
	}
	if !ok {
		t.wrong(key, "got %s; use %s", described(t.values[key]), anyOf(quoted(known)))
		return absent
	}
	meant := translated(w)
	if !slices.Contains(known, meant) {
		meant = nearest(w, known)
	}
	if meant != "" {
		t.wrong(key, "unknown %s %s; did you mean %s?", key, quote(w), quote(meant))
	} else {
		t.wrong(key, "unknown %s %s; use %s", key, quote(w), anyOf(quoted(known)))
	}
	return absent
}

// boolean reads true or false.
func (t table) boolean(key string, absent bool) bool {
	switch v := t.values[key].(type) {
	case nil:
		return absent
	case bool:
		return v
	default:
		t.wrong(key, "got %s; write true or false%s", described(v), unquoted(v))
		return absent
	}
}

// whole reads an integer from least to most.
func (t table) whole(key string, absent, least, most int) int {
	switch v := t.values[key].(type) {
	case nil:
		return absent
	case int64:
		if v >= int64(least) && v <= int64(most) {
			return int(v)
		}
		t.wrong(key, "%d is out of range; write a whole number from %d to %d", v, least, most)
	default:
		t.wrong(key, "got %s; write a whole number from %d to %d%s", described(v), least, most, unquoted(v))
	}
	return absent
}

// unquoted is the end of a hint about a value that must not be a string.
func unquoted(v any) string {
	if _, ok := v.(string); ok {
		return ", without quotes"
	}
	return ""
}
