package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// span is the range of a duration.
type span struct {
	least, most time.Duration
	off         bool // zero is allowed too
}

// Nothing that waits for the network makes sense below a millisecond; a limit
// above its most is a slip of the unit. All chosen, not measured.
var (
	spanDial   = span{time.Millisecond, time.Hour, false}            // one attempt of anything
	spanEvery  = span{time.Millisecond, 24 * time.Hour, false}       // repetition
	spanAnswer = span{time.Millisecond, 24 * time.Hour, false}       // an HTTP answer
	spanLimit  = span{time.Millisecond, 365 * 24 * time.Hour, true}  // of a session's life
	spanDelay  = span{time.Millisecond, 24 * time.Hour, true}        // before something begins
	spanRetry  = span{time.Millisecond, 365 * 24 * time.Hour, false} // until another try
	// The kernel keeps TCP_USER_TIMEOUT as milliseconds in 31 bits: 596.5 hours.
	spanUser = span{time.Millisecond, 596 * time.Hour, true}
	// The kernel takes up to 32767 s (9.1 hours) for TCP_KEEPIDLE and TCP_KEEPINTVL.
	spanIdle = span{time.Second, 9 * time.Hour, true}
	spanKeep = span{time.Second, 9 * time.Hour, false}
)

// duration reads a string such as "1m30s".
func (t table) duration(key string, absent time.Duration, s span) time.Duration {
	switch v := t.values[key].(type) {
	case nil:
		return absent
	case string:
		d, err := parseDuration(v)
		if err == nil {
			err = s.check(d)
		}
		if err == nil {
			return d
		}
		t.wrong(key, "%s %v", quote(v), err)
	case int64, float64:
		t.wrong(key, `got %s; a duration is a string with a unit, such as "%vs"`, described(v), s.example(v))
	default:
		t.wrong(key, `got %s; a duration is a string with a unit, such as "5s"`, described(v))
	}
	return absent
}

// example is a bare number if it may be meant as seconds, else 5.
func (s span) example(v any) float64 {
	var f float64
	switch v := v.(type) {
	case int64:
		f = float64(v)
	case float64:
		f = v
	}
	if f > 0 && f <= s.most.Seconds() || f == 0 && s.off {
		return f
	}
	return 5
}

var (
	bareNumber = regexp.MustCompile(`^[0-9]+([.][0-9]+)?$`)
	longUnit   = regexp.MustCompile(`[0-9](d|w|y|days?|weeks?|years?)$`)
	tooLong    = regexp.MustCompile(`^([0-9]+([.][0-9]*)?(h|m|s|ms|us|ns))+$`)
)

// parseDuration reads a duration. One that does not fit into the type comes
// back as the longest there is.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return d, nil
	case tooLong.MatchString(text):
		return math.MaxInt64, nil
	case bareNumber.MatchString(text):
		return 0, fmt.Errorf("has no unit; write %q", text+"s")
	case longUnit.MatchString(text):
		return 0, errors.New(`has a unit that is not known; write days in hours, such as "24h"`)
	default:
		return 0, errors.New(`is no duration; write a number and a unit (ms, s, m, h), such as "5s" or "1m30s"`)
	}
}

func (s span) check(d time.Duration) error {
	switch {
	case d == 0 && s.off:
		return nil
	case d < 0:
		return fmt.Errorf("is negative; write %s", s)
	case d < s.least || d > s.most:
		return fmt.Errorf("is out of range; write %s", s)
	default:
		return nil
	}
}

func (s span) String() string {
	text := fmt.Sprintf("%s to %s", short(s.least), short(s.most))
	if s.off {
		text = `"0s" for off, or ` + text
	}
	return text
}

// short is a duration without units that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
