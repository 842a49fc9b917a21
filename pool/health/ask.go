package health

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"regexp"
)

// Ask returns a probe that connects, sends send, and passes as soon as expect
// matches what has come back; without expect it passes once it has sent. It
// closes as [TCP] does. What a server says in vain is the evidence, with the
// words of send left out.
func Ask(dial Dial, send []byte, expect *regexp.Regexp) Probe {
	a := asking{send: send, expect: expect}
	return func(ctx context.Context, t Target) error {
		c, err := dial(ctx, t)
		if err != nil {
			return err
		}
		hear := heard
		if expect == nil {
			hear = hearGreeting
		}
		err = within(ctx, c, func() error { return a.talk(c) })
		Afterwards(ctx, func(ctx context.Context) { part(ctx, c, hear) })
		return err
	}
}

type asking struct {
	send   []byte
	expect *regexp.Regexp // nil: any, also none
}

func (a asking) talk(c net.Conn) error {
	if _, err := c.Write(a.send); err != nil {
		return fmt.Errorf("nothing could be sent: %s", Ending(err))
	}
	if a.expect == nil {
		return nil
	}
	return a.listen(c)
}

// listen reads until expect matches. It looks at all that has come after each
// read: an answer may come in parts.
func (a asking) listen(c net.Conn) error {
	var answer bytes.Buffer
	part := make([]byte, 4096)
	for answer.Len() < longestAnswer {
		n, err := c.Read(part[:min(len(part), longestAnswer-answer.Len())])
		answer.Write(part[:n])
		if n > 0 && a.expect.Match(answer.Bytes()) {
			return nil
		}
		if err != nil {
			return a.unmet(answer.Bytes(), Ending(err))
		}
	}
	return a.unmet(answer.Bytes(), "more than is read")
}

func (a asking) unmet(answer []byte, then string) error {
	expected := quote([]byte(a.expect.String()))
	if len(answer) == 0 {
		return fmt.Errorf("expected %s, got %s", expected, then)
	}
	return fmt.Errorf("expected %s, got %s, then %s", expected, quote(masked(answer, a.send)), then)
}
