package main

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer is a DNS server on loopback, by UDP and, unless udpOnly, by TCP.
type nameServer struct {
	t    testing.TB
	addr string // "ip:port"

	mu      sync.Mutex // guards what follows
	hosts   map[string][]netip.Addr
	srv     map[string][]dnsmessage.SRVResource
	trouble map[string]string // by name, "" for all: silence, servfail, nxdomain, or a word of odd
	queries map[string]int    // by name
	overTCP int
	deaf    bool // by TCP
}

// serveNames starts a server that knows no name yet.
func serveNames(t *testing.T, tcp bool) *nameServer {
	t.Helper()
	s := &nameServer{t: t, hosts: map[string][]netip.Addr{}, srv: map[string][]dnsmessage.SRVResource{},
		trouble: map[string]string{}, queries: map[string]int{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	udp, err := net.ListenPacket("udp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { udp.Close() })
	go s.serveUDP(udp)
	if !tcp {
		ln.Close()
		return s
	}
	t.Cleanup(func() { ln.Close() })
	go s.serveTCP(ln)
	return s
}

// at has a name stand for these addresses.
func (s *nameServer) at(name string, addrs ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []netip.Addr{}
	for _, a := range addrs {
		list = append(list, netip.MustParseAddr(a))
	}
	s.hosts[name+"."] = list
}

// service has a name stand for these records.
func (s *nameServer) service(name string, records ...dnsmessage.SRVResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.srv[name+"."] = records
}

// ail has questions for a name, or for all with an empty one, end badly; well
// again with an empty how.
func (s *nameServer) ail(name, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "" {
		name += "."
	}
	s.trouble[name] = how
}

// asked returns how often a name was asked for.
func (s *nameServer) asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[name+"."]
}

func (s *nameServer) serveUDP(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n], 512); answer != nil {
			c.WriteTo(answer, from)
		}
	}
}

func (s *nameServer) serveTCP(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var size [2]byte
			for {
				if _, err := io.ReadFull(c, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(c, query); err != nil {
					return
				}
				s.mu.Lock()
				s.overTCP++
				deaf := s.deaf
				s.mu.Unlock()
				if deaf {
					continue
				}
				if answer := s.answer(query, 65535); answer != nil {
					c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
				}
			}
		}()
	}
}

// answer returns the answer to a query, cut where it is longer than limit; nil is
// silence.
func (s *nameServer) answer(query []byte, limit int) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	name := strings.ToLower(q.Name.String())
	s.queries[name]++
	r := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
	how := s.trouble[name]
	if how == "" {
		how = s.trouble[""]
	}
	addrs, known := s.hosts[name]
	records, service := s.srv[name]
	switch {
	case how == "silence":
		return nil
	case how == "servfail":
		r.RCode = dnsmessage.RCodeServerFailure
	case how == "nxdomain" || !known && !service:
		r.RCode = dnsmessage.RCodeNameError
	case how == "loop":
		r.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeCNAME, Class: q.Class, TTL: 1}, Body: &dnsmessage.CNAMEResource{CNAME: q.Name},
		}}
	default:
		r.Answers = resources(q, addrs, records)
	}
	packed, err := r.Pack()
	if err == nil && len(packed) > limit {
		r.Answers, r.Truncated = nil, true
		packed, err = r.Pack()
	}
	if err != nil {
		s.t.Errorf("answer to %s: %v", name, err)
	}
	return odd(how, packed)
}

// odd spoils an answer.
func odd(how string, packed []byte) []byte {
	switch how {
	case "noise": // with the id of the question
		return append(packed[:2:2], strings.Repeat("\xa5\x81", 40)...)
	case "another question":
		packed[13] ^= 1
	case "half":
		return packed[:len(packed)-2]
	}
	return packed
}

func resources(q dnsmessage.Question, addrs []netip.Addr, records []dnsmessage.SRVResource) (list []dnsmessage.Resource) {
	add := func(body dnsmessage.ResourceBody) {
		list = append(list, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: body,
		})
	}
	for _, a := range addrs {
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			add(&dnsmessage.AResource{A: a.As4()})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			add(&dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
	for _, r := range records {
		if q.Type == dnsmessage.TypeSRV {
			add(&r)
		}
	}
	return list
}

// record is an SRV record.
func record(target string, port, priority, weight uint16) dnsmessage.SRVResource {
	return dnsmessage.SRVResource{Target: dnsmessage.MustNewName(target + "."), Port: port, Priority: priority, Weight: weight}
}
