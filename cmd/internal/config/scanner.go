package config

import "strings"

// value passes over one value and marks what is inside it.
func (s *scanner) value(path string) {
	if s.depth++; s.depth > maxDepth {
		s.fail(errDeep)
	}
	defer func() { s.depth-- }()
	rest := s.text[s.pos:]
	switch {
	case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, `'''`):
		s.longString(rest[:3])
	case s.peek() == '"' || s.peek() == '\'':
		s.shortString()
	case s.peek() == '[':
		s.array(path)
	case s.peek() == '{':
		s.inlineTable(path)
	default:
		s.skipUntil(" \t\r\n,]}#")
	}
}

func (s *scanner) array(path string) {
	s.pos++
	for i := 0; s.blank(); {
		before := s.pos
		switch s.peek() {
		case ']':
			s.pos++
			return
		case ',':
			s.pos++
			i++
		default:
			s.mark(element(path, i), s.line, false)
			s.value(element(path, i))
		}
		s.step(before)
	}
}

func (s *scanner) inlineTable(path string) {
	s.pos++
	for s.blank() {
		before := s.pos
		switch s.peek() {
		case '}':
			s.pos++
			return
		case ',':
			s.pos++
		default:
			s.keyValue(path)
		}
		s.step(before)
	}
}

// key reads a key of one or more parts, bare or quoted, with dots between them.
func (s *scanner) key() (parts []string, err error) {
	for len(parts) <= maxDepth {
		s.spaces()
		start := s.pos
		switch s.peek() {
		case '"', '\'':
			s.shortString()
			parts = append(parts, unquote(s.text[start:s.pos]))
		default:
			s.skipUntil(" \t\r\n.=[]{},#\"'")
			if s.pos == start {
				return nil, errKey
			}
			parts = append(parts, s.text[start:s.pos])
		}
		if s.spaces(); s.peek() != '.' {
			return parts, nil
		}
		s.pos++
	}
	s.fail(errDeep)
	return nil, errDeep
}

// unquote returns what a quoted key means. The library knows the escapes.
func unquote(quoted string) string {
	if root, err := unmarshal("k = " + quoted); err == nil {
		if text, ok := root["k"].(string); ok {
			return text
		}
	}
	return quoted
}

// shortString passes over a string that ends on its line.
func (s *scanner) shortString() {
	quote := s.peek()
	for s.pos++; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; {
		case c == quote:
			s.pos++
			return
		case c == '\n':
			return
		case c == '\\' && quote == '"' && !strings.HasPrefix(s.text[s.pos+1:], "\n"):
			s.pos++
		}
	}
	s.pos = min(s.pos, len(s.text))
}

// longString passes over a string between three quotes. Up to two more quotes
// may stand directly before the closing three, and belong to the string.
func (s *scanner) longString(quotes string) {
	s.pos += len(quotes)
	for s.pos < len(s.text) {
		switch rest := s.text[s.pos:]; {
		case strings.HasPrefix(rest, quotes):
			more := len(rest) - len(strings.TrimLeft(rest, quotes[:1]))
			s.pos += min(more, len(quotes)+2)
			return
		case rest[0] == '\\' && quotes[0] == '"' && len(rest) > 1 && rest[1] != '\n':
			s.pos += 2
		default:
			s.newline(rest[0])
			s.pos++
		}
	}
}

// blank passes over white space, line ends and comments, and reports whether
// anything follows.
func (s *scanner) blank() bool {
	for ; s.pos < len(s.text); s.pos++ {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.newline(c)
		case '#':
			s.skipUntil("\n")
			s.pos-- // the loop steps onto the line end
		default:
			return true
		}
	}
	s.pos = len(s.text)
	return false
}

func (s *scanner) restOfLine() { s.skipUntil("\n") }

// spaces passes over white space within a line.
func (s *scanner) spaces() {
	for s.peek() == ' ' || s.peek() == '\t' {
		s.pos++
	}
}

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos >= len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// skipUntil moves to the next byte that is in stops, or to the end.
func (s *scanner) skipUntil(stops string) {
	if i := strings.IndexAny(s.text[s.pos:], stops); i >= 0 {
		s.pos += i
	} else {
		s.pos = len(s.text)
	}
}

// step moves on by a byte if nothing was read since before, so that every loop
// ends on any text.
func (s *scanner) step(before int) {
	if s.pos == before {
		s.pos++
	}
}

func (s *scanner) newline(c byte) {
	if c == '\n' {
		s.line++
	}
}
