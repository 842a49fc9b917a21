package config

import (
	"cmp"
	"regexp"
	"slices"
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

// nameForm is what names and ids are made of: they are labels of metrics and
// parts of paths in the API.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.:/\[\]-]{1,128}$`)

// checkName notes that a name has a wrong form.
func (t table) checkName(key, name string) {
	if !nameForm.MatchString(name) {
		t.wrong(key, "%s is no name: 1 to 128 of the characters A-Z a-z 0-9 _ . : / [ ] -", quote(name))
	}
}

// word reads one of a few words. Those of later features are refused as such.
func (t table) word(key, absent string, known []string, later ...string) string {
	w, ok := t.values[key].(string)
	if !t.has(key) || slices.Contains(known, w) {
		return cmp.Or(w, absent)
	}
	if !ok {
		t.wrong(key, "got %s; use %s", described(t.values[key]), anyOf(quoted(known)))
		return absent
	}
	if slices.Contains(later, w) {
		t.wrong(key, "%s is not supported yet; use %s", quote(w), anyOf(quoted(known)))
		return absent
	}
	if n := nearest(w, slices.Concat(known, later)); n != "" {
		t.wrong(key, "unknown %s %s; did you mean %s?", key, quote(w), quote(n))
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
		t.wrong(key, "got %s; write true or false, without quotes", described(v))
		return absent
	}
}

// maxSessions bounds every limit on sessions: more descriptors than a kernel
// gives to one process.
const maxSessions = 1_000_000_000

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
		t.wrong(key, "got %s; write a whole number from %d to %d, without quotes", described(v), least, most)
	}
	return absent
}
