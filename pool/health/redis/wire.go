package redis

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// longestPart bounds the lengths that a server gives for what it is about to say.
// Chosen: the longest part of an answer is INFO's, some kilobytes.
const longestPart = 64 << 10

// mostParts bounds how many parts all lists of a conversation have together. Chosen:
// the only one that is asked for, HELLO's with its modules, has dozens.
const mostParts = 4 << 10

// full is what a server says that has maxclients, before it ends the connection.
const full = "ERR max number of clients"

// longestLine bounds how much of a line is kept. Chosen: more than any number has,
// and more than full.
const longestLine = 32

var errLength = errors.New("a length that no answer has")

// wire is the connection below the library, which trusts every length that a server
// gives: it takes memory for a text or a list before it has come, however large,
// and panics if that is too much to count. So each is looked at before the library
// sees it. For one goroutine at a time.
type wire struct {
	net.Conn
	text  int    // bytes of a text that are still to come
	line  []byte // the beginning of the line that is read
	parts int    // of lists, so far
	full  bool   // the server has said so: the library keeps a refusal of HELLO to itself
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if bad := w.check(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// check follows what a server says: lines, and texts whose lengths are in lines.
func (w *wire) check(said []byte) error {
	for len(said) > 0 {
		if w.text > 0 {
			n := min(w.text, len(said))
			w.text -= n
			said = said[n:]
			continue
		}
		part, rest, whole := bytes.Cut(said, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), longestLine-len(w.line))]...)
		if said = rest; !whole {
			return nil
		}
		if err := w.head(string(bytes.TrimSuffix(w.line, []byte("\r")))); err != nil {
			return err
		}
		w.line = w.line[:0]
	}
	return nil
}

// head looks at a line. One that begins with any of these gives a length: with the
// first three of a text, which follows with the end of its line, else of a list.
func (w *wire) head(line string) error {
	w.full = w.full || strings.HasPrefix(line, "-"+full)
	if line == "" || !strings.ContainsAny(line[:1], "$!=*~%>|") {
		return nil
	}
	length, err := strconv.Atoi(line[1:])
	if err != nil || length > longestPart {
		return fmt.Errorf("%w: %q", errLength, line)
	}
	if length < 0 { // nothing, or what the library refuses
		return nil
	}
	if strings.ContainsAny(line[:1], "$!=") {
		w.text = length + len("\r\n")
		return nil
	}
	if w.parts += length; w.parts > mostParts {
		return fmt.Errorf("%w: %q", errLength, line)
	}
	return nil
}
