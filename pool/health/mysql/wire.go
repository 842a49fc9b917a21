package mysql

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"sluice/pool/health"
)

// mostRead bounds what a visit reads. Chosen: hundreds of times what its answers
// take.
const mostRead = 1 << 20

// longestGreeting bounds the first packet of a server. Chosen: one has about a
// hundred bytes, or an error of 512 at most.
const longestGreeting = 4 << 10

var errMuch = errors.New("more than is read")

// wire is the connection below the library. But for Close it is for one goroutine.
type wire struct {
	net.Conn
	heard    atomic.Bool // the server has said something
	greeting []byte      // read, but not by the library yet
	left     int         // how much may still be read
	fault    error       // of the connection, as opposed to what was said over it
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.greeting) > 0 {
		n := copy(p, w.greeting)
		w.greeting = w.greeting[n:]
		return n, nil
	}
	if w.left == 0 {
		w.fault = errMuch
		return 0, errMuch
	}
	n, err := w.Conn.Read(p[:min(len(p), w.left)])
	w.left -= n
	w.noted(err)
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.noted(err)
	return n, err
}

func (w *wire) noted(err error) {
	if err != nil && w.fault == nil {
		w.fault = err
	}
}

// Close ends with RST a connection that the server may not have accepted yet. Once
// it accepts one that was reset it does not learn whose it was, and so counts it
// against nobody; one with FIN is a handshake that was broken off. It may come
// while others read, and more than once.
func (w *wire) Close() error {
	if c, ok := w.Conn.(interface{ SetLinger(int) error }); ok && !w.heard.Load() {
		c.SetLinger(0)
	}
	return w.Conn.Close()
}

// greet reads the first packet and keeps it for the library, if it is one that the
// library can read: it trusts every length in there.
func (w *wire) greet() error {
	var head [4]byte
	if n, err := io.ReadFull(w.Conn, head[:]); err != nil {
		return notMySQL(head[:n], err)
	}
	w.heard.Store(true)
	length := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if length == 0 || length > longestGreeting || head[3] != 0 {
		return notMySQL(head[:], nil)
	}
	packet := make([]byte, len(head)+length)
	copy(packet, head[:])
	n, err := io.ReadFull(w.Conn, packet[len(head):])
	if err != nil || !wellFormed(packet[len(head):]) {
		return notMySQL(packet[:len(head)+n], err)
	}
	w.greeting = packet
	return nil
}

// wellFormed reports whether the payload of a first packet is an error, or a
// greeting of protocol 10 with everything that one has since MySQL 4.1: the
// version, an end of it, and at least 44 bytes.
func wellFormed(payload []byte) bool {
	switch payload[0] {
	case 0xff:
		return len(payload) > 3 && (payload[3] != '#' || len(payload) >= 9)
	case 10:
		end := bytes.IndexByte(payload, 0)
		return end > 0 && len(payload)-end-1 >= 44
	}
	return false
}

func notMySQL(got []byte, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("no greeting of MySQL: got %s", quote(string(got)))
	case len(got) == 0:
		return fmt.Errorf("no greeting: got %s", ending(err))
	}
	return fmt.Errorf("no greeting of MySQL: got %s, then %s", quote(string(got)), ending(err))
}

// mostQuoted is how much of something that is not MySQL a reason shows. Chosen: a
// line of log.
const mostQuoted = 100

// quote shows the beginning of what a server said, on one line.
func quote(s string) string {
	if len(s) > mostQuoted {
		return strconv.Quote(s[:mostQuoted]) + "..."
	}
	return strconv.Quote(s)
}

// ending is health.Ending for a connection that is closed when its time is over.
func ending(err error) string {
	if errors.Is(err, net.ErrClosed) {
		err = os.ErrDeadlineExceeded
	}
	return health.Ending(err)
}
