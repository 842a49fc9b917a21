package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/l4/session"
	"sluice/pool"
)

// DefaultSettings are those of a frontend whose file says nothing of them.
func DefaultSettings() session.Settings {
	return session.Settings{
		Attempts:         3,
		ConnectTimeout:   2 * time.Second,
		DialBudget:       6 * time.Second,
		IdleTimeout:      0,
		HalfCloseTimeout: time.Minute,
		KeepAlive:        session.KeepAlive{Idle: time.Minute, Interval: 10 * time.Second, Count: 6},
		UserTimeout:      0,
		MaxAge:           0,
		AgeJitter:        20,
	}
}

// frontend reads one [[frontend]], and gives the endpoint to listen on; nil if
// that is not known.
func (t table) frontend() (Frontend, *endpoint) {
	absent := DefaultSettings()
	f := Frontend{
		MaxSessions: t.whole("max_sessions", 0, 0, pool.MaxSessionLimit),
		Admission:   t.admission(),
		Settings: session.Settings{
			Attempts:         t.whole("attempts", absent.Attempts, 1, 100),
			ConnectTimeout:   t.duration("connect_timeout", absent.ConnectTimeout, spanDial),
			DialBudget:       t.duration("dial_budget", absent.DialBudget, spanDial),
			IdleTimeout:      t.duration("idle_timeout", absent.IdleTimeout, spanLimit),
			HalfCloseTimeout: t.duration("half_close_timeout", absent.HalfCloseTimeout, spanLimit),
			KeepAlive:        t.sub("keepalive").keepAlive(absent.KeepAlive),
			UserTimeout:      t.duration("user_timeout", absent.UserTimeout, spanUser),
			MaxAge:           t.duration("max_session_age", absent.MaxAge, spanLimit),
			AgeJitter:        t.whole("max_session_age_jitter", absent.AgeJitter, 0, 100),
		},
	}
	t.adviseDial(f.Settings)
	if t.has("max_session_age_jitter") && f.Settings.MaxAge == 0 {
		t.warn("max_session_age_jitter", "has no effect, since max_session_age is 0: sessions last as long as they like")
	}
	var named bool
	if f.Name, named = t.required("name"); named {
		t.checkName("name", f.Name)
	}
	if f.Name == "/proxy" {
		t.wrong("name", "%s is the name of the admin side's HTTP path; choose another", quote(f.Name))
	}
	var at *endpoint
	f.Listen, at = t.endpoint("listen", parseAddress)
	f.Pool, _ = t.required("pool")
	f.Mode = t.mode("mode", 0o660, at)
	return f, at
}

// adviseDial warns where one dial may use up the time of all (the shares that
// are left for the others decide then, not connect_timeout).
func (t table) adviseDial(s session.Settings) {
	if s.ConnectTimeout > s.DialBudget || s.ConnectTimeout == s.DialBudget && s.Attempts > 1 {
		t.warn("connect_timeout", "%s leaves nothing of dial_budget (%s) for a second dial; "+
			"each dial gets its share of the budget instead", short(s.ConnectTimeout), short(s.DialBudget))
	}
}

func (t table) keepAlive(absent session.KeepAlive) session.KeepAlive {
	k := session.KeepAlive{
		Idle:     t.duration("idle", absent.Idle, spanIdle),
		Interval: t.duration("interval", absent.Interval, spanKeep),
		Count:    t.whole("count", absent.Count, 1, 127), // tcp(7): what the kernel accepts for TCP_KEEPCNT
	}
	t.wholeSeconds("idle", k.Idle)
	t.wholeSeconds("interval", k.Interval)
	return k
}

// wholeSeconds refuses what the kernel would round.
func (t table) wholeSeconds(key string, d time.Duration) {
	if d%time.Second != 0 {
		t.wrong(key, "%s is not whole seconds, which is what the kernel counts in; write such as %s", short(d), quote(short(d.Truncate(time.Second)+time.Second)))
	}
}

// endpoint reads a required address.
func (t table) endpoint(key string, parse func(string) (endpoint, error)) (string, *endpoint) {
	if list, ok := t.values[key].([]any); ok {
		t.wrong(key, "got %s; an address is exactly one host:port, so write one %s per address", described(list), t.keys.header)
		return "", nil
	}
	text, ok := t.required(key)
	if !ok {
		return "", nil
	}
	e, err := parse(text)
	if errors.Is(err, pool.ErrSeveral) {
		err = fmt.Errorf("%w; write one %s per address", err, t.keys.header)
	}
	if err != nil {
		t.wrong(key, "%v", err)
		return text, nil
	}
	return text, &e
}

// mode reads the permissions of a unix socket.
func (t table) mode(key string, absent uint32, at *endpoint) uint32 {
	if number, ok := t.values[key].(int64); ok {
		t.wrong(key, `got %s; write the octal digits as a string, such as "0660"`, described(number))
		return absent
	}
	text := t.text(key, "")
	if text == "" && !t.has(key) {
		return absent
	}
	bits, err := strconv.ParseUint(text, 8, 32)
	switch {
	case t.values[key] != text: // another type, which is noted already
		return absent
	case at != nil && at.Unix == "":
		t.wrong(key, "only a unix socket has a mode, and listen is none; remove it")
		return absent
	case err != nil || bits > 0o777:
		t.wrong(key, `%s is no mode; write octal digits up to 0777, such as "0660"`, quote(text))
		return absent
	}
	return uint32(bits)
}
