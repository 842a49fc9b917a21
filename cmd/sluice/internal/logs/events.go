package logs

import (
	"math"
	"net/netip"
	"strings"
	"time"

	"sluice/admin"
	"sluice/l4/session"
	"sluice/pool"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Session writes the line of a finished session, if such lines are wanted.
func (l *Logs) Session(r session.Record) {
	if !l.wanted(r) {
		return
	}
	line := l.zap.Check(zap.InfoLevel, "session")
	if line == nil {
		return
	}
	if r.Cause.Refused() && !l.sessions.allow(r.Frontend+" "+string(r.Cause)) {
		return
	}
	line.Write(sessionFields(r)...)
}

// wanted reports whether the settings ask for the line of r.
func (l *Logs) wanted(r session.Record) bool {
	c := l.pick.Load()
	if !r.Cause.Normal() {
		return c.Access != "off"
	}
	empty := r.ToBackend == 0 && r.ToClient == 0
	return c.Access == "all" && (c.LogEmpty || !empty)
}

func sessionFields(r session.Record) []zap.Field {
	return []zap.Field{
		zap.Time(Started, r.Started),
		zap.String(Session, r.Session),
		zap.String(Frontend, r.Frontend),
		zap.String(Listen, r.Listen),
		client(r.Client),
		peer(r.Peer),
		zap.String(Pool, r.Pool),
		zap.String(Backend, r.Backend),
		zap.String(Address, r.Address),
		zap.String(Source, r.Source),
		zap.Array(Attempts, attempts(r.Attempts)),
		zap.Int64(ToBackend, r.ToBackend),
		zap.Int64(ToClient, r.ToClient),
		zap.Float64(QueueMS, milliseconds(r.Queue)),
		zap.Float64(DialMS, milliseconds(r.Dial)),
		zap.Float64(TotalMS, milliseconds(r.Total)),
		zap.Float64(LastMS, milliseconds(r.Last)),
		zap.Int64(FrontendActive, r.FrontendActive),
		zap.Int64(BackendActive, r.BackendActive),
		zap.String(Code, r.Code),
		zap.String(Cause, string(r.Cause)),
	}
}

// client is empty for the client of a unix socket.
func client(a netip.AddrPort) zap.Field {
	if !a.IsValid() {
		return zap.String(Client, "")
	}
	return zap.Stringer(Client, a)
}

// peer is written only where a PROXY header told another client.
func peer(a netip.AddrPort) zap.Field {
	if !a.IsValid() {
		return zap.Skip()
	}
	return zap.Stringer(Peer, a)
}

// milliseconds returns d in milliseconds, exact to the microsecond.
func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// attempts is the list of dials of one session, as one field.
type attempts []session.Attempt

// MarshalLogArray writes the dials in their order.
func (as attempts) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, a := range as {
		if err := e.AppendObject(attempt(a)); err != nil {
			return err
		}
	}
	return nil
}

type attempt session.Attempt

// MarshalLogObject writes one dial.
func (a attempt) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString(Backend, a.Backend)
	e.AddString(AttemptError, a.Error)
	e.AddFloat64(AttemptMS, milliseconds(a.Took))
	return nil
}

// Rejected writes that a client was refused before it became a session.
func (l *Logs) Rejected(frontend, reason string, from netip.AddrPort) {
	if !l.rejected.allow(frontend + " " + reason) {
		return
	}
	l.zap.Warn("client refused",
		zap.String(Frontend, frontend),
		client(from),
		zap.String(Reason, reason),
		zap.String(Code, refusal(reason)))
}

// refusal returns the two letters that HAProxy would log for a refusal.
func refusal(reason string) string {
	switch reason {
	case "denied", "proxy_header":
		return "PR"
	case "proxy_header_timeout":
		return "cR"
	}
	return "PC"
}

// Fault writes an error of a frontend: of its accept loop, or a defect of ours.
func (l *Logs) Fault(frontend string, err error) {
	if l.faults.allow(Frontend + " " + frontend) {
		l.zap.Warn("frontend fault", zap.String(Frontend, frontend), zap.NamedError(Error, err))
	}
}

// LookupFailed writes that the addresses of a backend's name could not be
// learned. The last good ones stay in use.
func (l *Logs) LookupFailed(host string, err error) {
	if l.faults.allow(Host + " " + host) {
		l.zap.Warn("look-up failed", zap.String(Host, host), zap.NamedError(Error, err))
	}
}

// Backend writes one transition of a backend with its evidence.
func (l *Logs) Backend(c pool.Change) {
	line := l.zap.Check(levelOf(c), "backend "+c.To)
	if line == nil {
		return
	}
	line.Write(
		zap.String(Pool, c.Pool),
		zap.String(Backend, c.Backend),
		zap.String(Address, c.Address),
		zap.String(From, c.From),
		zap.String(To, c.To),
		zap.String(Reason, c.Reason))
}

// Panic writes that a pool began, or ended, to use all its backends.
func (l *Logs) Panic(c pool.Panic) {
	level, message := zap.InfoLevel, "pool out of panic"
	if c.On {
		level, message = zap.WarnLevel, "pool in panic, all backends are used"
	}
	l.zap.Log(level, message, zap.String(Pool, c.Pool), zap.String(Reason, c.Reason))
}

// Conflict writes that several backends claim to be the only one of their pool, or
// that this is over.
func (l *Logs) Conflict(c pool.Conflict) {
	if len(c.IDs) == 0 {
		l.zap.Info("conflict is over", zap.String(Pool, c.Pool), zap.String(Reason, c.Reason))
		return
	}
	l.zap.Warn("several backends claim to be the only one", zap.String(Pool, c.Pool), zap.Strings("conflict", c.IDs),
		zap.String("chosen", c.Chosen), zap.String(Reason, c.Reason))
}

// byAPI ends the reason of each transition that the API caused, or comes before who
// asked for it, in parentheses.
const byAPI = " by the API"

// levelOf keeps a start quiet: that a backend which counted as up is up is no
// news. That one which waits for its first probe, or is held out, stays down is:
// the reason is new. What the API changes the admin side writes, with who asked
// for it.
func levelOf(c pool.Change) zapcore.Level {
	switch {
	case c.From == "down" && c.To == "down":
		return zap.InfoLevel
	case c.From == c.To, strings.HasSuffix(c.Reason, byAPI), strings.Contains(c.Reason, byAPI+" ("):
		return zap.DebugLevel
	case c.To == "down":
		return zap.WarnLevel
	}
	return zap.InfoLevel
}

// Probe writes the result of one probe, for those who ask for level debug.
func (l *Logs) Probe(b *pool.Backend, err error) {
	if line := l.zap.Check(zap.DebugLevel, "probe"); line != nil {
		line.Write(
			zap.String(Pool, b.Pool()),
			zap.String(Backend, b.ID()),
			zap.String(Address, b.Address()),
			zap.NamedError(Error, err))
	}
}

// Reload writes what came of a reload, and who asked for it: a signal, or a
// client of the admin side.
func (l *Logs) Reload(by string, done admin.Reloaded, err error) {
	asked, generation := zap.String(By, by), zap.Int64(Generation, done.Generation)
	switch {
	case err != nil:
		l.zap.Error("reload refused, nothing changed", asked, zap.Strings(Errors, strings.Split(err.Error(), "\n")))
	case len(done.Changes) == 0:
		l.zap.Info("reload: unchanged", asked, generation)
	case len(done.RestartNeeded) > 0:
		l.zap.Warn("reloaded", asked, generation, zap.Strings(Changes, done.Changes), zap.Strings(RestartNeeded, done.RestartNeeded))
	default:
		l.zap.Info("reloaded", asked, generation, zap.Strings(Changes, done.Changes))
	}
}
