package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// byteOrderMark is what some editors put in front of UTF-8.
const byteOrderMark = "\ufeff"

// lines says on which line each key of a document stands. A path is that of
// toml.Key, with an index behind whatever is an element: pool[0].backend[2].id.
type lines map[string]int

const (
	maxDepth = 32      // of nested values and of dotted keys; the deepest that is in use is 4
	maxKeys  = 1 << 19 // keys and elements: 100,000 backends; 16 MiB could hold eight million
)

var (
	errDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)
	errMany = fmt.Errorf("more than %d keys and values", maxKeys)
	errKey  = errors.New("no key") // where the scanner lost its way
)

// scan finds the line of every key of a TOML document. It is no parser: what it
// makes of a text that is not TOML is undefined, but it ends, and it accepts
// whatever the library would, so that a nesting it bounds is bounded there as
// well (the library recurses without a bound). With an error the line is lines[""].
func scan(text string) (lines, error) {
	s := scanner{text: strings.TrimPrefix(text, byteOrderMark), line: 1, found: lines{}, elements: map[string]int{}}
	for s.err == nil && s.blank() {
		if s.peek() == '[' {
			s.header()
		} else {
			s.keyValue(s.table)
		}
		s.restOfLine()
	}
	if s.err != nil {
		return lines{"": s.line}, s.err
	}
	return s.found, nil
}

type scanner struct {
	text     string
	pos      int
	line     int
	table    string         // path of the table whose keys follow
	found    lines          // what is known so far
	elements map[string]int // path of an array of tables: how many there are
	depth    int
	err      error
}

// header reads [a.b] or [[a.b]] and makes it the current table.
func (s *scanner) header() {
	line, array := s.line, strings.HasPrefix(s.text[s.pos:], "[[")
	s.pos++
	if array {
		s.pos++
	}
	parts, err := s.key()
	if err != nil {
		return
	}
	path := ""
	for i, part := range parts {
		path = join(path, part)
		last := i == len(parts)-1
		switch {
		case last && array:
			s.mark(path, line, false)
			s.elements[path]++
			path = element(path, s.elements[path]-1)
		case s.elements[path] > 0:
			path = element(path, s.elements[path]-1)
		}
		s.mark(path, line, last)
	}
	s.table = path
}

// keyValue reads key = value below the table at path.
func (s *scanner) keyValue(path string) {
	line := s.line
	parts, err := s.key()
	if err != nil {
		return
	}
	for _, part := range parts {
		path = join(path, part)
		s.mark(path, line, false)
	}
	if s.spaces(); s.peek() == '=' {
		s.pos++
		s.spaces()
		s.value(path)
	}
}

// mark notes the line of path. The first one stands, but a table's own header
// wins over a mention as somebody's parent.
func (s *scanner) mark(path string, line int, own bool) {
	if _, ok := s.found[path]; !ok || own {
		s.found[path] = line
	}
	if len(s.found) > maxKeys {
		s.fail(errMany)
	}
}

// fail ends the scan where it stands.
func (s *scanner) fail(err error) {
	if s.err == nil {
		s.err = err
		s.pos = len(s.text)
	}
}

// join appends a key to a path, quoted if it has to be.
func join(path, key string) string {
	key = toml.Key{key}.String()
	if path == "" {
		return key
	}
	return path + "." + key
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
