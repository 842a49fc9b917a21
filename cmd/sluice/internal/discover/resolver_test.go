package discover_test

import (
	"net"
	"strings"
	"testing"

	"sluice/cmd/sluice/internal/discover"
)

// A look-up that failed names the server that was asked, and not the one of
// /etc/resolv.conf: somebody will look for the fault there.
func TestErrorsNameTheServerThatWasAsked(t *testing.T) {
	t.Parallel()
	failing, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer failing.Close()
	// It answers each question with "server failure".
	go func() {
		q := make([]byte, 512)
		for {
			n, from, err := failing.ReadFrom(q)
			if err != nil {
				return
			}
			q[2], q[3] = q[2]|0x80, 2
			failing.WriteTo(q[:n], from)
		}
	}()
	server := failing.LocalAddr().String()
	r := discover.NewResolver(server)
	_, plain := r.Addresses(t.Context(), "x.test.")
	_, many := r.Source().IP(t.Context(), "ip4", "x.test.")
	_, srv := r.Source().SRV(t.Context(), "_x._tcp.test.")
	for _, err := range []error{plain, many, srv} {
		if err == nil || !strings.Contains(err.Error(), " on "+server) {
			t.Errorf("got %v, want one that names %s", err, server)
		}
	}
}
