package l4test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
)

// period is a prime just above 1 MiB: a piece of a round size that got lost,
// doubled or swapped always shows.
const period = 1<<20 + 7

// noise is two periods of the pattern, so that any stretch of up to one period
// is contiguous.
var noise = sync.OnceValue(func() []byte {
	b := make([]byte, period, 2*period)
	rand.NewChaCha8([32]byte{'p'}).Read(b)
	return append(b, b...)
})

// Pattern returns a reader of n bytes of which no stretch repeats soon.
func Pattern(n int64) io.Reader { return PatternAt(0, n) }

// PatternAt returns n bytes of the pattern from offset at on, for streams that
// must not be taken for each other.
func PatternAt(at, n int64) io.Reader { return io.LimitReader(&pattern{at}, n) }

type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	n := copy(b, noise()[p.at%period:][:period])
	p.at += int64(n)
	return n, nil
}

// Verify is a writer that takes the pattern from offset At on and nothing else.
type Verify struct {
	At int64
	N  int64 // bytes taken so far
}

// Write takes b if it is what comes next, and fails if it is not.
func (v *Verify) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		part := rest[:min(len(rest), period)]
		if want := noise()[(v.At+v.N)%period:][:len(part)]; !bytes.Equal(part, want) {
			return 0, fmt.Errorf("wrong data within %d bytes of offset %d", len(part), v.N)
		}
		v.N += int64(len(part))
		rest = rest[len(part):]
	}
	return len(b), nil
}
