package l4test

import "io"

// Pattern returns a reader of n bytes of which no stretch repeats soon, so that
// a lost, doubled or swapped piece shows.
func Pattern(n int64) io.Reader { return io.LimitReader(&pattern{}, n) }

type pattern struct{ at uint64 }

func (p *pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(p.at ^ p.at>>8*31 ^ p.at>>16*17 ^ p.at>>24)
		p.at++
	}
	return len(b), nil
}
