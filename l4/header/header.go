// Package header reads the PROXY header that a balancer in front of this one
// puts before the first byte of a connection, to tell who the client is.
//
// It finds out where a header ends, however its bytes arrive, and takes nothing
// behind it. What a whole header says is the library's to read. It touches no
// socket and keeps no state: it is given all that came so far.
package header

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

const (
	// Max bounds a header of version 2 with all its TLVs. Its length field allows
	// 64 KiB; real ones, with a certificate's names, stay below 2 KiB. Chosen.
	Max = 4 << 10
	// maxV1 is what a header of version 1 can take (PROXY protocol, section 2.1).
	maxV1 = 107
	// fixed is the part of version 2 that tells the length of the rest (section 2.2).
	fixed = 16
)

// Verdict is what some first bytes of a connection are.
type Verdict uint8

// The verdicts.
const (
	More  Verdict = iota // they may become a header
	Whole                // they begin with one
	None                 // they cannot become one
)

// Header is what a header told.
type Header struct {
	Size        int            // bytes it took
	Source      netip.AddrPort // the client; zero if the sender speaks for itself, or tells no address of TCP
	Destination netip.AddrPort // where the client connected to; zero as Source
}

// Read judges the first bytes of a connection, all that came so far. The Header
// means something if they begin with a whole one.
func Read(p []byte) (Header, Verdict) {
	if v := begins(p, proxyproto.SIGV2); v != None {
		return readV2(p, v)
	}
	return readV1(p)
}

// begins reports whether p begins with what, or may do so once more is there.
func begins(p, what []byte) Verdict {
	switch {
	case bytes.HasPrefix(p, what):
		return Whole
	case bytes.HasPrefix(what, p):
		return More
	}
	return None
}

// v1 lists how a header of version 1 begins.
var v1 = [...][]byte{[]byte("PROXY TCP4 "), []byte("PROXY TCP6 "), []byte("PROXY UNKNOWN")}

func readV1(p []byte) (Header, Verdict) {
	v := None
	for _, first := range v1 {
		if as := begins(p, first); as != None {
			v = as
			break
		}
	}
	if v != Whole {
		return Header{}, v
	}
	end := bytes.IndexByte(p[:min(len(p), maxV1)], '\n') + 1
	switch {
	case end > 0:
		return parse(p[:end])
	case len(p) < maxV1:
		return Header{}, More
	}
	return Header{}, None
}

func readV2(p []byte, v Verdict) (Header, Verdict) {
	const (
		commandAt, familyAt, lengthAt = 12, 13, 14
		local, proxy, unspecified     = 0x20, 0x21, 0x00
	)
	if v == More || len(p) <= commandAt {
		return Header{}, More
	}
	if p[commandAt] != local && p[commandAt] != proxy {
		return Header{}, None
	}
	if len(p) < fixed {
		return Header{}, More
	}
	size := fixed + int(binary.BigEndian.Uint16(p[lengthAt:]))
	switch {
	case size > Max:
		return Header{}, None
	case len(p) < size:
		return Header{}, More
	case p[commandAt] == local, p[familyAt] == unspecified: // whatever is in it
		return Header{Size: size}, Whole
	}
	return parse(p[:size])
}

// parse reads what a whole header says.
func parse(p []byte) (Header, Verdict) {
	told, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(p), maxV1))
	if err != nil {
		return Header{}, None
	}
	h := Header{Size: len(p)}
	if source, destination, ok := told.TCPAddrs(); ok {
		h.Source, h.Destination = addrPort(source), addrPort(destination)
	}
	return h, Whole
}

func addrPort(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
