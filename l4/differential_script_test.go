//go:build linux

package l4_test

import (
	"fmt"
	"strings"

	"sluice/l4/session"
)

// script is what both ends of a session do, as one list. Each end does its own
// steps in their order; a step waits for the other end only where it says so,
// and then only for steps above it. So no script can deadlock: every step ends
// once those above it have.
//
// An end reads beside its steps, all the time unless it holds. Behind its last
// step it ends its stream, reads what is still to come, and closes, unless it
// has left.
type script []step

// step is one line of a script. n is a number of bytes.
type step struct {
	side session.Side
	op   string
	n    int64
}

// The operations.
const (
	opWrite  = "write"  // n bytes; an end that holds does what opPush does
	opLast   = "last"   // n bytes and the end of the stream, in one segment if they fit
	opDrip   = "drip"   // n bytes in many small writes
	opPush   = "push"   // up to n bytes: until the other end takes no more
	opUrgent = "urgent" // one byte, which is no part of the stream
	opEnd    = "end"    // the end of the stream: shut the write side
	opHold   = "hold"   // read no more, until opTake, opRead or opEnded
	opSlow   = "slow"   // from now on read in sips
	opTake   = "take"   // up to n of the bytes written above, then hold
	opRead   = "read"   // all that the other wrote above
	opEnded  = "ended"  // read to the end, which is above
	opSync   = "sync"   // until the other did all above, or is stuck in a write to an end that holds
	opGate   = "gate"   // until all sessions of the test are at their gates
	opOrder  = "order"  // order the balancer to end all sessions, and read to the end
	opReset  = "reset"  // leave with a reset
	opClose  = "close"  // leave as a process that exits does
)

var sized = map[string]bool{opWrite: true, opLast: true, opDrip: true, opPush: true, opTake: true}

func (s step) String() string {
	text := [2]string{"client", "backend"}[s.side] + " " + s.op
	if sized[s.op] {
		text += fmt.Sprintf(" %d", s.n)
	}
	return text
}

func (s step) sends() bool { return sized[s.op] && s.op != opTake }

// writes returns in how many writes the bytes go out, if they are few.
func (s step) writes() int64 {
	if s.op == opDrip {
		return (s.n + drop - 1) / drop
	}
	return 1
}

func (s step) ends() bool   { return s.op == opEnd || s.op == opLast }
func (s step) leaves() bool { return s.op == opReset || s.op == opClose }

// String returns the script as parse takes it.
func (s script) String() string {
	var lines []string
	for _, step := range s {
		lines = append(lines, step.String())
	}
	return strings.Join(lines, "; ")
}

// parse reads a script: "client write 10; client end; backend ended". It panics
// on what it does not know.
func parse(text string) script {
	var s script
	for line := range strings.SplitSeq(text, ";") {
		var side string
		var next step
		n, _ := fmt.Sscan(line, &side, &next.op, &next.n)
		if side == "backend" {
			next.side = session.Backend
		} else if side != "client" {
			panic("no end in the step " + line)
		}
		if sized[next.op] != (n == 3) {
			panic("wrong number of words in the step " + line)
		}
		s = append(s, next)
	}
	if got := s.normal().String(); got != s.String() {
		panic("not in normal form: " + s.String() + "\nwhich is: " + got)
	}
	return s
}

// normal drops the steps that mean nothing: of an end that has left, writes
// behind the end of the stream, a second urgent byte (the kernel keeps one), and
// waiting for an end that is not above.
func (s script) normal() script {
	var kept script
	var over, left, urgent [2]bool // over: the stream that this side sends
	ordered := false
	for _, next := range s {
		side := next.side
		writes := next.sends() || next.ends() || next.op == opUrgent
		switch {
		case left[side], writes && over[side], next.op == opUrgent && urgent[side],
			next.op == opEnded && !over[side.Other()] && !ordered:
			continue
		}
		ordered = ordered || next.op == opOrder
		urgent[side] = urgent[side] || next.op == opUrgent
		left[side] = next.leaves()
		over[side] = over[side] || next.ends() || next.leaves()
		kept = append(kept, next)
	}
	return kept
}

// has reports whether one of the steps of a side is op.
func (s script) has(side session.Side, op string) bool {
	for _, step := range s {
		if step.side == side && step.op == op {
			return true
		}
	}
	return false
}

// ordered reports whether the balancer ends the session.
func (s script) ordered() bool {
	return s.has(session.Client, opOrder) || s.has(session.Backend, opOrder)
}
