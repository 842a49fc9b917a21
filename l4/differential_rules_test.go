//go:build linux

package l4_test

import (
	"fmt"
	"slices"

	"sluice/l4/session"
)

// The rules. They hold for a direct connection, which keeps them honest, and
// through any engine alike. "Other" is the end at the other side; bytes are
// compared one by one with the pattern that the other sends, which is more than
// a hash says.
//
//	prefix    An end sees the first bytes of what the other sent, and no more.
//	end       It sees an end only after the other ended its stream or closed,
//	          and then it has seen all that the other sent.
//	reset     It sees a reset only after the other left. One that left by a
//	          reset without an end before is never taken for one that ended.
//	graceful  If the other did not leave, it sees all of its bytes and an end.
//	          A close counts as graceful if all input had been read and none
//	          could be on its way.
//	light     A stream of few writes and at most lightest bytes arrives whole
//	          whatever comes behind it, its end included.
//
// Where both ends follow the script to the byte, a balanced run must equal the
// direct one. What may differ, beside time and chunking:
//
//	lost behind a reset    How much of a stream that is not light arrives: a
//	                       reset throws away what is queued where it is sent, and
//	                       a balancer adds two queues. Its end may be lost with it.
//	input on its way       A close with unread input is a reset on the wire. What
//	                       the input of a closing end is depends on what the
//	                       balancer has passed on by then, and so does whether
//	                       the other sees an end or a reset.
//	left                   What an end had seen when it left by itself.
//	until stuck            How much a push sends: the queues again.
//	ordered                (balanced alone) An order ends both streams with an
//	                       end, each behind a part of what was sent.
const (
	lightest  = 16 << 10 // far below the smallest send queue and the first window
	fewWrites = 10       // segments that are sent before any is acknowledged (RFC 6928)
)

// stream is what a script says of the bytes that one end sends.
type stream struct {
	ended    bool   // before it left, or because it never did
	left     string // the operation, or empty
	clean    bool   // it closed when all input was read and none on its way
	light    bool   // see the rules
	pushed   bool   // the length depends on queues
	follower bool   // it ended only after it saw the other's end
}

func (s script) stream(from session.Side) stream {
	var f stream
	var total, writes int64
	read := true // all that the other wrote
	waited, holds := false, false
	for _, step := range s {
		if step.side != from {
			read = read && !step.sends() && step.op != opUrgent
			f.clean = f.clean && read
			continue
		}
		if step.sends() {
			total, writes = total+step.n, writes+step.writes()
		}
		f.pushed = f.pushed || step.op == opPush || step.sends() && holds
		waited = waited || step.op == opEnded
		switch step.op {
		case opRead, opEnded:
			read, holds = true, false
		case opHold, opTake:
			holds = true
		}
		if step.ends() {
			f.ended, f.follower = true, waited
		}
		if step.leaves() {
			f.left, f.clean = step.op, step.op == opClose && read
		}
	}
	if f.left == "" && !f.ended {
		f.ended, f.follower = true, waited
	}
	f.clean = f.clean && !s.has(from.Other(), opUrgent)
	f.light = total <= lightest && writes < fewWrites // and one urgent byte
	return f
}

// graceful reports whether the stream arrives whole and with its end.
func (f stream) graceful() bool { return f.left == "" || f.clean || f.light && f.ended }

// mayEnd reports whether the end of the stream can be seen.
func (f stream) mayEnd() bool { return f.ended || f.left != opReset }

// judge returns what is wrong with a run of a script.
func (s script) judge(r run) (wrong []string) {
	complain := func(side session.Side, rule string) {
		wrong = append(wrong, fmt.Sprintf("%s: rule %q", [2]string{"client", "backend"}[side], rule))
	}
	if r.err != nil {
		return []string{r.err.Error()}
	}
	for side, saw := range r.ends {
		side := session.Side(side)
		sent, other := r.ends[side.Other()].sent, s.stream(side.Other())
		if saw.seen > sent {
			complain(side, "prefix")
		}
		switch saw.how {
		case "left":
			continue
		case "end":
			if !s.ordered() && (saw.early || !other.mayEnd() || saw.seen != sent) {
				complain(side, "end")
			}
		case "reset":
			if saw.early || other.graceful() || s.ordered() {
				complain(side, "reset")
			}
		default:
			complain(side, saw.how)
		}
		if other.light && saw.seen != sent && !s.ordered() {
			complain(side, "light")
		}
	}
	return wrong
}

// compare returns where a balanced run differs from a direct one and may not.
func (s script) compare(direct, balanced run) (wrong []string) {
	for side := range direct.ends {
		d, b := direct.ends[side], balanced.ends[side]
		in, out := s.stream(session.Side(side).Other()), s.stream(session.Side(side))
		if d.how == "left" || b.how == "left" || in.pushed || out.pushed {
			continue
		}
		whole := in.graceful() || in.light && in.left == opReset
		stayed := in.left == "" && out.left == "" // so no write can have failed
		if whole && (d.seen != b.seen || d.how != b.how) || stayed && d.answered != b.answered {
			wrong = append(wrong, fmt.Sprintf("%s: differs", [2]string{"client", "backend"}[side]))
		}
	}
	return wrong
}

// audit returns what is wrong with the record of a balanced run. It counts what
// the sockets of the balancer took: all that an end saw, and no more where it saw
// the end, or a reset that waited for what was on its way.
func (s script) audit(r run) (wrong []string) {
	if len(r.records) != 1 {
		return []string{fmt.Sprintf("%d records", len(r.records))}
	}
	rec := r.records[0]
	for side, n := range [2]int64{session.Client: rec.ToClient, session.Backend: rec.ToBackend} {
		saw, sent := r.ends[side], r.ends[1-side].sent
		flushed := saw.how == "reset" && s.flushes(session.Side(side))
		if n < saw.seen || n > sent || (flushed || saw.how == "end") && n != saw.seen {
			wrong = append(wrong, fmt.Sprintf("the record says %d bytes to the %s", n, [2]string{"client", "backend"}[side]))
		}
	}
	causes := s.causes()
	if !slices.Contains(causes, rec.Cause) {
		wrong = append(wrong, fmt.Sprintf("the cause is none of %v", causes))
	}
	if want := rec.Cause.Code(session.Moment{}); rec.Code != want {
		wrong = append(wrong, fmt.Sprintf("the code is not %s", want))
	}
	return wrong
}

// flushes reports whether what is on its way to an end is little enough, and the
// end ready enough, for all of it to arrive in the time that a reset waits.
func (s script) flushes(to session.Side) bool {
	var total int64
	for _, step := range s {
		if step.side == to && (step.op == opHold || step.op == opTake || step.op == opSlow) {
			return false
		}
		if step.side != to && step.sends() {
			total += step.n
		}
	}
	return total <= 256<<10
}

// causes lists what a session may have ended of.
func (s script) causes() (list []session.Cause) {
	if s.ordered() {
		return []session.Cause{session.Shutdown}
	}
	streams := [2]stream{s.stream(session.Client), s.stream(session.Backend)}
	for side, f := range streams {
		other := streams[1-side]
		if f.left != "" && (!f.graceful() || other.left != "") {
			list = append(list, reset[side])
		}
		// Not if it waited for the other to end, and not if nothing but the
		// reset of the other can end the session.
		if f.mayEnd() && !(f.follower && f.left == "" && other.left == "") && (f.left != "" || other.mayEnd()) {
			list = append(list, closed[side])
		}
	}
	return list
}
