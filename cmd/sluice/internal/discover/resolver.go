package discover

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

const (
	tcpTime = time.Second // of a connect by TCP, before UDP is tried
	udpFor  = time.Minute // how long TCP is not tried again after it failed
)

// Resolver asks a DNS server. Search list, time-outs and /etc/hosts are the
// system's. Safe for concurrent use.
type Resolver struct {
	server string // "ip:port"; empty: those of the system
	names  net.Resolver
	source Source
	udp    atomic.Int64 // until when TCP is not tried, in Unix nanoseconds
}

// NewResolver returns a resolver that asks the server at "ip:port", or the
// system's with an empty text.
func NewResolver(server string) *Resolver {
	r := &Resolver{server: server}
	r.names.PreferGo = server != ""
	r.names.Dial = r.dial
	r.source = Source{IP: r.addresses, SRV: r.services}
	return r
}

// Server returns the text that it was made of.
func (r *Resolver) Server() string { return r.server }

// Addresses returns all addresses of host, in the resolver's order.
func (r *Resolver) Addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if r.server == "" {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}
	plain := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.server)
	}}
	addrs, err := plain.LookupNetIP(ctx, "ip", host)
	return addrs, r.named(err)
}

// Source returns where names that stand for many addresses are looked up: by TCP
// if the server has it. By UDP some servers leave out what does not fit, and do
// not say so (Consul unless enable_truncate is set).
func (r *Resolver) Source() *Source { return &r.source }

func (r *Resolver) addresses(ctx context.Context, network, host string) ([]netip.Addr, error) {
	addrs, err := r.names.LookupNetIP(ctx, network, host)
	return addrs, r.judge(err)
}

func (r *Resolver) services(ctx context.Context, name string) ([]*net.SRV, error) {
	_, records, err := r.names.LookupSRV(ctx, "", "", name)
	return records, r.judge(err)
}

// judge has UDP tried for a while after a time-out: perhaps something between here
// and the server drops what comes by TCP.
func (r *Resolver) judge(err error) error {
	if e, ok := err.(*net.DNSError); ok && e.IsTimeout {
		r.avoidTCP()
	}
	return r.named(err)
}

// named has an error name the server that was asked: Go names one of the system's,
// whoever was dialed instead.
func (r *Resolver) named(err error) error {
	e, ok := err.(*net.DNSError)
	if !ok || r.server == "" || e.Server == "" {
		return err
	}
	ours := *e // the error may be shared with others who ask
	ours.Server = r.server
	return &ours
}

func (r *Resolver) avoidTCP() { r.udp.Store(time.Now().Add(udpFor).UnixNano()) }

func (r *Resolver) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if r.server != "" {
		address = r.server
	}
	var d net.Dialer
	if strings.HasPrefix(network, "udp") && time.Now().UnixNano() >= r.udp.Load() {
		limited, cancel := context.WithTimeout(ctx, tcpTime)
		defer cancel()
		c, err := d.DialContext(limited, "tcp", address)
		if err == nil {
			return c, nil
		}
		r.avoidTCP()
	}
	return d.DialContext(ctx, network, address)
}
