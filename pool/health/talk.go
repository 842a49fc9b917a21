package health

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longestAnswer bounds what a probe reads before its verdict. Chosen: no
// greeting, status line or header that says something is longer.
const longestAnswer = 64 << 10

// within runs talk over c, whose reads and writes fail when ctx ends. After that
// c is as good as before.
func within(ctx context.Context, c net.Conn, talk func() error) error {
	if d, ok := ctx.Deadline(); ok {
		c.SetDeadline(d)
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		c.SetDeadline(time.Unix(1, 0))
	})
	err := talk()
	if !stop() {
		<-over
	}
	c.SetDeadline(time.Time{})
	return err
}

// Ending says how a conversation ended, without the addresses that net.OpError
// adds.
func Ending(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return "nothing more in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "its end"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

// mostEvidence is how much of an answer a reason quotes. Chosen: a line of log.
const mostEvidence = 100

// quote shows the beginning of what a server said, on one line.
func quote(b []byte) string {
	if len(b) > mostEvidence {
		return strconv.Quote(string(b[:mostEvidence])) + "..."
	}
	return strconv.Quote(string(b))
}

// shortestSecret is the length from which on a word that was sent is not shown
// when it comes back. Chosen: nobody has a shorter password.
const shortestSecret = 4

// masked hides the words of sent in an answer: servers repeat what they refuse,
// and it may have been a password.
func masked(answer, sent []byte) []byte {
	words := append(bytes.FieldsFunc(sent, separates), bytes.FieldsFunc(sent, divides)...)
	// A longer word may begin with a shorter one.
	slices.SortFunc(words, func(a, b []byte) int { return len(b) - len(a) })
	for _, word := range words {
		if len(word) >= shortestSecret {
			answer = bytes.ReplaceAll(answer, word, []byte("***"))
		}
	}
	return answer
}

// divides also takes apart what a server may repeat in part: keys and values, a
// name and its password.
func divides(r rune) bool { return separates(r) || strings.ContainsRune("&=:", r) }

func separates(r rune) bool { return r <= ' ' || strings.ContainsRune(`"'`, r) }

// mostSaid is how much of a refusal in words a reason shows. Chosen: the longest
// that servers write.
const mostSaid = 200

// Said shortens what a server says in an error, and hides the secret in it:
// servers repeat what they refuse.
func Said(text, secret string) string {
	if len(secret) >= shortestSecret {
		text = strings.ReplaceAll(text, secret, "***")
	}
	if len(text) > mostSaid {
		return strings.ToValidUTF8(text[:mostSaid], "") + "..."
	}
	return text
}
