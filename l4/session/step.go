package session

import "time"

// Side is one of the two ends of a session.
type Side uint8

// The two sides. They index what a session keeps for each.
const (
	Client Side = iota
	Backend
)

// Other returns the opposite side.
func (s Side) Other() Side { return 1 - s }

// sides is a set of sides.
type sides uint8

func (s sides) has(side Side) bool { return s>>side&1 != 0 }

func (s *sides) add(side Side) { *s |= 1 << side }

// Do is what an engine has to do for a session that has no backend yet.
type Do uint8

// What to do, and which call answers it.
const (
	Header Do = iota + 1 // receive from the client until Step.Deadline, then call Header or NoHeader
	Lookup               // find the addresses of Step.Address, then call Resolved
	Queue                // none is to be had now, and to wait may help: call Queue
	Wait                 // stay in the queue: call Woken when woken and at Step.Deadline, Left if the client ends
	Dial                 // connect to Step.Address, then call Dialed
	Relay                // the connect succeeded: send the Greeting, if Step.Greet, and start the relay
	End                  // close the client with RST, then call Close
)

// Step is the answer of a session that looks for its backend. Its zero value
// says that Next was not called yet.
type Step struct {
	Do       Do
	Address  string    // Lookup: "name:port". Dial: "ip:port" or "unix:/path"
	Name     string    // Dial: the "name:port" that Address comes from; empty if it was configured literally
	Greet    int       // Relay: the version of the header that Greeting writes; 0 is none
	Deadline time.Time // of the header, the lookup, the wait or the dial
}

// Verb is the answer of a session that relays.
type Verb uint8

// The verbs. After Finish none follows; after Linger, Abort and Reset only Cut.
const (
	None      Verb = iota // go on
	HalfClose             // shut the write side of the other socket, behind its last byte
	Finish                // both directions ended: close both sockets
	Linger                // end politely: deliver what was read, shut both write sides, discard input to its end
	Abort                 // pass an end that was read on; stop reading from the living side, let what is queued go out, then RST to both
	Reset                 // stop reading from both sides, let what is queued for the client go out, then RST to both
	Redial                // not relaying yet: give up the lookup or dial under way, and call Diverted
	Cut                   // RST to both at once: the time for Linger, Abort or Reset is over
)

// LingerTime bounds the polite part of an ending: design value, as long as a
// retransmission or two takes on a working network.
const LingerTime = time.Second
