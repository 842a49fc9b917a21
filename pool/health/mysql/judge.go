package mysql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// writable returns why a server with those variables takes no writes. MariaDB has
// read_only alone, which from 12.0 on knows words beside ON; a reader of Aurora has
// innodb_read_only.
func writable(variables row) error {
	if len(variables) == 0 {
		return errors.New("does not say whether it is read-only, and a primary is wanted")
	}
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only"} {
		if is := variables[name]; is != "" && is != "OFF" && is != "0" {
			return fmt.Errorf("%s is %s, and a primary is wanted", name, quoted(is))
		}
	}
	return nil
}

// synced returns why a node of a Galera cluster does not take queries, or would
// answer with old data: it must be ready, in the primary component and synced (4). A
// donor, or a node that was desynced, is behind: it may be far behind.
func synced(variables, status row) error {
	switch {
	case status["wsrep_ready"] == "":
		return errors.New("is no node of a Galera cluster: it has no wsrep_ready")
	case variables["wsrep_on"] == "OFF":
		return errors.New("wsrep_on is OFF: takes no part in the cluster")
	case status["wsrep_ready"] != "ON":
		return fmt.Errorf("wsrep_ready is %s", quoted(status["wsrep_ready"]))
	case status["wsrep_cluster_status"] != "Primary":
		return fmt.Errorf("wsrep_cluster_status is %s, not Primary", quoted(status["wsrep_cluster_status"]))
	case status["wsrep_local_state"] != "4":
		return fmt.Errorf("wsrep_local_state is %s (%s), not 4 (Synced)",
			quoted(status["wsrep_local_state"]), quoted(status["wsrep_local_state_comment"]))
	}
	if is := variables["wsrep_reject_queries"]; is != "" && is != "NONE" {
		return fmt.Errorf("wsrep_reject_queries is %s", quoted(is))
	}
	return nil
}

// sourcesQuery is how a server of that version tells of all that it replicates from.
// MariaDB's has a row for each connection, those of MySQL for each channel; MySQL
// has the new word from 8.0.22 on, and no other from 8.4 on.
func sourcesQuery(version string) string {
	var major, minor, patch int
	fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch) // what cannot be read is old
	switch {
	case strings.Contains(version, "MariaDB"):
		return "SHOW ALL SLAVES STATUS"
	case major > 8, major == 8 && (minor > 0 || patch >= 22):
		return "SHOW REPLICA STATUS"
	}
	return "SHOW SLAVE STATUS"
}

// replicates returns why a server with those sources is not the replica that is
// wanted, or too far behind.
func (o Options) replicates(sources []row) error {
	if len(sources) == 0 && o.Role == "replica" {
		return errors.New("has no source to replicate from, and a replica is wanted")
	}
	for _, s := range sources {
		err := o.follows(s)
		if err == nil {
			continue
		}
		if _, name := s.either("Connection_name", "Channel_Name"); name != "" {
			return fmt.Errorf("source %s: %w", quote(name), err)
		}
		return err
	}
	return nil
}

// follows is replicates for one source. A receiver that is about to connect runs: all
// replicas of a primary that died are in that state, and reads are what is left.
// How far behind such a replica is, nobody knows. Of what an error says only the
// number is shown: the text may have the data that could not be applied.
func (o Options) follows(s row) error {
	ioName, io := s.either("Replica_IO_Running", "Slave_IO_Running")
	applierName, applier := s.either("Replica_SQL_Running", "Slave_SQL_Running")
	switch {
	case o.Role != "replica":
	case io == "No" || io == "":
		return fmt.Errorf("%s is %s (error %s), and a replica is wanted", ioName, quoted(io), quoted(s["Last_IO_Errno"]))
	case applier != "Yes":
		return fmt.Errorf("%s is %s (error %s), and a replica is wanted", applierName, quoted(applier), quoted(s["Last_SQL_Errno"]))
	}
	if o.MaxLag == 0 {
		return nil
	}
	name, text := s.either("Seconds_Behind_Source", "Seconds_Behind_Master")
	behind, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("does not say how far it lags: %s is NULL, %s is %s, %s is %s",
			name, ioName, quoted(io), applierName, quoted(applier))
	}
	if behind > int64(o.MaxLag/time.Second) {
		return fmt.Errorf("lags %ds, more than %s", behind, o.MaxLag)
	}
	return nil
}

// either returns the column of a new name or, if there is none, of its old one.
func (r row) either(now, before string) (name, value string) {
	if value, ok := r[now]; ok {
		return now, value
	}
	return before, r[before]
}

// quoted is what a server said, as a word of a reason: as it is if it is a word.
func quoted(s string) string {
	if s == "" || len(s) > 40 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return quote(s)
	}
	return s
}
