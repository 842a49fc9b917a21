package balancer

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"sluice/cmd/sluice/internal/logs"

	"go.uber.org/zap"
)

// inherited are listening sockets that the process was started with. Whoever
// wants the address of one at the start gets it.
type inherited []net.Listener

// take returns the socket that is bound to address, and forgets it; nil if there
// is none.
func (in *inherited) take(address string) net.Listener {
	i := slices.IndexFunc(*in, func(ln net.Listener) bool { return boundTo(ln.Addr(), address) })
	if i < 0 {
		return nil
	}
	ln := (*in)[i]
	*in = slices.Delete(*in, i, i+1)
	return ln
}

// boundTo reports whether a is what address, as the file writes it, asks for. A
// host that is a name matches none: it may stand for several.
func boundTo(a net.Addr, address string) bool {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return a.Network() == "unix" && a.String() == path
	}
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	if strings.HasPrefix(address, ":") {
		address = "[::]" + address
	}
	want, err := netip.ParseAddrPort(address)
	at := tcp.AddrPort()
	return err == nil && want.Port() == at.Port() && want.Addr().Unmap() == at.Addr().Unmap()
}

// closeInherited closes the sockets that nobody wants.
func (b *Balancer) closeInherited() {
	for _, ln := range b.inherited {
		b.log.Warn("a socket that the process was started with is closed: no frontend listens on its address",
			zap.Stringer(logs.Listen, ln.Addr()))
		ln.Close()
	}
	b.inherited = nil
}
