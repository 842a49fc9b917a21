package l4

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Between the bind and the chmod nobody gets in whom the mode shuts out.
func TestUnixSocketIsNeverWiderThanItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	lc := net.ListenConfig{Control: guarded(nil, 0o600)}
	ln, err := lc.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v before the chmod; want mode 0600", info.Mode(), err)
	}
}
