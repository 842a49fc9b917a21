package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"sluice/admin/internal/answer"
)

// maxBody bounds the body of an API request. The longest sensible one, a
// backend, has some 400 bytes. Chosen, not measured.
const maxBody = 64 << 10

// fields are the keys that an object may have, each with what takes its value.
type fields map[string]func(json.RawMessage) error

// names lists the keys for messages.
func (f fields) names() string {
	return strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}

// object reads the body, which must be exactly one JSON object with the keys of
// f, each at most once.
func (c *call) object(f fields) error {
	text, err := c.bodyOf(maxBody, "send one backend at a time")
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return answer.Refuse(http.StatusBadRequest, "the body is empty; send a JSON object with some of: %s", f.names())
	}
	return f.read(text)
}

// objectOrNone is object for a body that may be empty: then nothing is taken.
func (c *call) objectOrNone(f fields) error {
	text, err := c.bodyOf(maxBody, "send a JSON object")
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	return f.read(text)
}

// read takes one JSON object.
func (f fields) read(text []byte) error {
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return answer.Refuse(http.StatusBadRequest, "the body is not one JSON object: %v", err)
	}
	return f.take(json.NewDecoder(bytes.NewReader(text)))
}

// bodyOf reads a body of at most that many bytes. instead says what to do with a
// larger one.
func (c *call) bodyOf(most int64, instead string) ([]byte, error) {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &large):
		return nil, answer.Refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes; %s", most, instead)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, answer.Refuse(http.StatusRequestTimeout, "the body did not arrive within %v", bodyTimeout)
	}
	return nil, answer.Refuse(http.StatusBadRequest, "the body broke off: %v", err)
}

// take walks the keys of an object that is known to be valid JSON.
func (f fields) take(d *json.Decoder) error {
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return answer.Refuse(http.StatusBadRequest, "the body must be a JSON object with some of: %s", f.names())
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return answer.Refuse(http.StatusBadRequest, "the body is not one JSON object: %v", err)
		}
		key, _ := token.(string)
		set, known := f[key]
		if !known {
			return answer.Refuse(http.StatusBadRequest, "unknown field %q; known are: %s", key, f.names())
		}
		if seen[key] {
			return answer.Refuse(http.StatusBadRequest, "field %q is given twice", key)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return answer.Refuse(http.StatusBadRequest, "field %q: %v", key, err)
		}
		if err := set(value); err != nil {
			return answer.Refuse(http.StatusBadRequest, "field %q %v", key, err)
		}
	}
	return nil
}

// text takes a string.
func text(to *string) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		if len(raw) == 0 || raw[0] != '"' {
			return errors.New("must be a string")
		}
		return json.Unmarshal(raw, to)
	}
}

// whole takes a whole number from 0 to largest.
func whole(to **int, largest int) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		n, err := strconv.Atoi(string(raw))
		if err != nil || n < 0 || n > largest {
			return errors.New("must be a whole number from 0 to " + strconv.Itoa(largest))
		}
		*to = &n
		return nil
	}
}
