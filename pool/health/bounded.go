package health

import (
	"errors"
	"net"
)

// mostHeard bounds what a server may say in one probe. Chosen: hundreds of times
// what the answers take.
const mostHeard = 1 << 20

var errMuch = errors.New("more than is read")

// Bounded returns c with an end to what can be read from it, for libraries that
// collect what a server says for as long as it speaks. Only one goroutine at a time
// may read.
func Bounded(c net.Conn) net.Conn { return &bounded{Conn: c, left: mostHeard} }

type bounded struct {
	net.Conn
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
