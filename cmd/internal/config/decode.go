package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// maxSize bounds a file: 16 MiB hold more than 100,000 backends.
const maxSize = 16 << 20

// decode turns text into a tree and the line of every key in it. What it
// refuses makes the rest unreadable, so its error is always a single mistake.
func decode(file string, text []byte) (map[string]any, lines, error) {
	if line, err := readable(text); err != nil {
		return nil, nil, broken(file, line, err.Error())
	}
	where, err := scan(string(text))
	if err != nil {
		return nil, nil, broken(file, where[""], err.Error())
	}
	root, err := unmarshal(string(text))
	var syntax toml.ParseError
	switch {
	case errors.As(err, &syntax):
		return nil, nil, broken(file, syntaxLine(syntax, text), syntaxText(syntax))
	case err != nil:
		return nil, nil, broken(file, 1, err.Error())
	}
	return root, where, nil
}

// broken is one mistake in the form that all mistakes have.
func broken(file string, line int, text string) error {
	in := input{file: file}
	in.add(line, text)
	return in.err()
}

// readable finds what would make every later message misleading.
func readable(text []byte) (line int, err error) {
	lineAt := func(i int) int { return 1 + bytes.Count(text[:i], []byte("\n")) }
	if len(text) > maxSize {
		return 1, fmt.Errorf("the file is larger than %d MiB", maxSize>>20)
	}
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return 1, errors.New("the file is UTF-16; save it as UTF-8")
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return lineAt(i), errors.New("a NUL byte: the file is not text, or not UTF-8; save it as UTF-8")
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return lineAt(i), fmt.Errorf("byte 0x%02x is not valid UTF-8; save the file as UTF-8", text[i])
		}
		i += n
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte(byteOrderMark)))) == 0 {
		return 1, errors.New("the file is empty; it needs at least one [[frontend]] and its [[pool]]")
	}
	return 0, nil
}

// unmarshal decodes text. The library panics where it believes in a bug of its
// own; for a file that an operator is editing, that has to be an error as well.
func unmarshal(text string) (root map[string]any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("syntax: the file is not understood: %v", p)
		}
	}()
	_, err = toml.Decode(text, &root)
	return root, err
}

// syntaxLine is where the offending text starts. The library's own line is one
// too far where that text is the end of a line.
func syntaxLine(e toml.ParseError, text []byte) int {
	text = bytes.TrimPrefix(text, []byte(byteOrderMark)) // as the library does before it counts
	start := min(max(0, e.Position.Start), len(text))    // it gives -1 for a control character at 0
	return 1 + bytes.Count(text[:start], []byte("\n"))
}

// syntaxText is the library's message, with the key if it got that far, and the
// way to mend what is most likely behind it.
func syntaxText(e toml.ParseError) string {
	text := "syntax: " + strings.TrimSuffix(e.Message, ".")
	if e.LastKey != "" {
		text = strings.TrimSuffix(e.LastKey, ".") + ": " + text
	}
	for _, r := range remedies {
		if strings.Contains(e.Message, r.of) {
			return text + "; " + r.remedy
		}
	}
	return text
}

// remedies are what to write instead, by a part of the library's message.
var remedies = []struct{ of, remedy string }{
	{"found '\\n' instead", "a value is missing"},
	{"expected value but found", inQuotes},
	{"leading zeroes", `permission bits stand in quotes, such as "0600"`},
	{"Invalid float", inQuotes},
	{"expected a top-level item to end", inQuotes},
	{"expected '.' or '='", "write key = value"},
	{"strings cannot contain newlines", "a closing quote is missing"},
	{"unexpected EOF; expected", "it is not closed"},
	{"invalid escape", "write a backslash twice, or the string in single quotes"},
	{"already been defined", "it may stand only once"},
	{"expected end of table array name", "write [[ and ]]"},
}

const inQuotes = "what is not a number, true or false stands in quotes"
