package redis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// info is a part of the answer to INFO: values by name.
type info map[string]string

func parse(text string) info {
	all := info{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// judge says why the server is not fit for the role; nil if it is.
func (o Options) judge(a answers) error {
	primary := a.replication["role"] == "master"
	switch {
	case a.persistence["loading"] == "1":
		return errors.New("is loading its data")
	case a.ping != nil:
		return fmt.Errorf("PING: %w", a.ping)
	case !primary && a.replication["role"] != "slave":
		return errors.New("does not say whether it is a primary or a replica")
	case !primary && o.Role == "primary":
		return errors.New("is a replica, and a primary is wanted")
	case primary && o.Role == "replica":
		return errors.New("is a primary, and a replica is wanted")
	case primary:
		return o.primary(a.replication)
	}
	return o.replica(a.replication)
}

// primary judges one by its replicas.
func (o Options) primary(replication info) error {
	fit := 0
	for name, value := range replication {
		if digits, ok := strings.CutPrefix(name, "slave"); ok && isNumber(digits) && o.counts(value) {
			fit++
		}
	}
	if fit >= o.MinReplicas {
		return nil
	}
	lag := ""
	if o.MaxLag > 0 {
		lag = fmt.Sprintf(" and lag at most %s", o.MaxLag)
	}
	return fmt.Errorf("is a primary of which %d replicas are online%s, and %d are wanted", fit, lag, o.MinReplicas)
}

// counts reports whether a replica, as its primary sees it, is one of those that
// are wanted: "ip=127.0.0.1,port=6380,state=online,offset=42,lag=0".
func (o Options) counts(replica string) bool {
	seen := info{}
	for field := range strings.SplitSeq(replica, ",") {
		name, value, _ := strings.Cut(field, "=")
		seen[name] = value
	}
	lag, ok := seen.seconds("lag")
	return seen["state"] == "online" && (o.MaxLag == 0 || ok && lag <= o.MaxLag)
}

// replica judges one by its link to its primary, if that matters.
func (o Options) replica(replication info) error {
	if o.Role != "replica" && o.MaxLag == 0 {
		return nil
	}
	if replication["master_sync_in_progress"] == "1" {
		return errors.New("is a replica that still copies the data of its primary")
	}
	if replication["master_link_status"] != "up" {
		return errors.New("is a replica without a link to its primary" + since(replication))
	}
	if o.MaxLag == 0 {
		return nil
	}
	lag, ok := replication.seconds("master_last_io_seconds_ago")
	switch {
	case !ok:
		return errors.New("is a replica that does not say how far it lags")
	case lag > o.MaxLag:
		return fmt.Errorf("lags %s, more than %s", lag, o.MaxLag)
	}
	return nil
}

// since says how long a replica has had no link, if it knows.
func since(replication info) string {
	if d, ok := replication.seconds("master_link_down_since_seconds"); ok {
		return fmt.Sprintf(" for %s", d)
	}
	return ""
}

// seconds reads a number of seconds; false if there is none, or a negative one,
// which stands for never.
func (i info) seconds(name string) (time.Duration, bool) {
	n, err := strconv.ParseInt(i[name], 10, 32)
	return time.Duration(n) * time.Second, err == nil && n >= 0
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 32)
	return err == nil
}
