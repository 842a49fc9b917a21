package session

import "slices"

// Cause is why a session ended: one word of the log, the metrics and the API.
type Cause string

// The causes. The first that is set stays.
const (
	ClientClosed     Cause = "client_closed"      // both sides ended, the client first
	BackendClosed    Cause = "backend_closed"     // both sides ended, the backend first
	ClientReset      Cause = "client_reset"       // the client's socket failed
	BackendReset     Cause = "backend_reset"      // the backend's socket failed
	Idle             Cause = "idle"               // no progress for the idle timeout
	HalfCloseTimeout Cause = "half_close_timeout" // no progress after one side ended
	ConnectFailed    Cause = "connect_failed"     // every dial that was allowed failed
	ClientLeft       Cause = "client_left"        // the client reset before a backend was reached
	NoBackend        Cause = "no_backend"         // no candidate was usable
	BackendLimit     Cause = "backend_limit"      // a usable candidate was full, none was dialed
	QueueTimeout     Cause = "queue_timeout"      // no full candidate had room in time
	HoldTimeout      Cause = "hold_timeout"       // no backend became eligible in time
	LocalFault       Cause = "local_fault"        // descriptors, memory or permission on our side
	Killed           Cause = "killed"             // an operator ended it
	Shutdown         Cause = "shutdown"           // the process ended it
	OnDown           Cause = "on_down"            // its backend went down
	Removed          Cause = "removed"            // its backend was removed
	Drained          Cause = "drained"            // its backend was drained, and the time for that is over
	MaxAge           Cause = "max_age"            // it lasted as long as its frontend allows
	Rebalanced       Cause = "rebalanced"         // its backend has more sessions than its share
)

// The causes of a client that was not let in once its header was waited for. It
// was never a session.
const (
	Denied        Cause = "denied"               // by its address
	ClientLimit   Cause = "client_limit"         // it has all its sessions already
	ClientRate    Cause = "client_rate"          // it begins too many
	BadHeader     Cause = "proxy_header"         // what it sent is no header
	HeaderTimeout Cause = "proxy_header_timeout" // it sent none in time
)

// causes lists them, so that a session can hold one in a byte: as its place.
var causes = [...]Cause{
	"", ClientClosed, BackendClosed, ClientReset, BackendReset, Idle, HalfCloseTimeout,
	ConnectFailed, ClientLeft, NoBackend, BackendLimit, QueueTimeout, LocalFault, Killed, Shutdown,
	Denied, ClientLimit, ClientRate, BadHeader, HeaderTimeout, OnDown, Removed, Drained,
	MaxAge, Rebalanced, HoldTimeout,
}

// place returns where c is among the causes; what is not among them is a defect
// of ours.
func (c Cause) place() uint8 {
	i := slices.Index(causes[:], c)
	if i < 0 {
		return LocalFault.place()
	}
	return uint8(i)
}

// Refused reports whether the cause is that the client got no backend. Such a
// client gets RST, so that it does not take the silence for an answer. An order
// can also come before a backend was reached; its cause says the order.
func (c Cause) Refused() bool {
	switch c {
	case ConnectFailed, NoBackend, BackendLimit, QueueTimeout, HoldTimeout, LocalFault, ClientLeft:
		return true
	}
	return false
}

// Rejected reports whether the client was not let in: it is counted as such, and
// its record is nobody's.
func (c Cause) Rejected() bool {
	switch c {
	case Denied, ClientLimit, ClientRate, BadHeader, HeaderTimeout:
		return true
	}
	return false
}

// ofBackend reports whether an order with that cause is about the backend, so
// that a session which has not reached it yet can go on with another.
func (c Cause) ofBackend() bool { return c == OnDown || c == Removed || c == Drained }

// Normal reports whether both sides ended the session by themselves.
func (c Cause) Normal() bool { return c == ClientClosed || c == BackendClosed }

// Moment is what a code depends on beside the cause.
type Moment struct {
	TimedOut  bool // the last dial ran out of time
	ToBackend bool // the last byte went to the backend
	Queued    bool // the session waited for a backend to be free
}

// Code returns the two letters that HAProxy would log: who ended the session,
// and in which phase (its configuration manual, section 8.5).
func (c Cause) Code(at Moment) string {
	switch c {
	case ClientClosed, BackendClosed:
		return "--"
	case ClientReset:
		return "CD"
	case BackendReset:
		return "SD"
	case Idle, HalfCloseTimeout:
		return pickCode(at.ToBackend, "sD", "cD")
	case ConnectFailed:
		return pickCode(at.TimedOut, "sC", "SC")
	case ClientLeft:
		return pickCode(at.Queued, "CQ", "CC")
	case NoBackend:
		return "SC"
	case BackendLimit:
		return "SQ"
	case QueueTimeout, HoldTimeout:
		return "sQ"
	case LocalFault:
		return "RC"
	case Denied, BadHeader:
		return "PR"
	case ClientLimit, ClientRate:
		return "PC"
	case HeaderTimeout:
		return "cR"
	case OnDown:
		return "DD"
	}
	return "KD"
}

func pickCode(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}
