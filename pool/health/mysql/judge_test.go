package mysql

import (
	"strings"
	"testing"
	"time"
)

func wantReason(t *testing.T, what string, got error, want string) {
	t.Helper()
	switch {
	case got == nil && want == "":
	case got == nil || want == "":
		t.Errorf("%s: got %v, want %q", what, got, want)
	case got.Error() != want:
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// rowOf reads "name=value name=value".
func rowOf(text string) row {
	r := row{}
	for _, pair := range strings.Fields(text) {
		name, value, _ := strings.Cut(pair, "=")
		r[name] = value
	}
	return r
}

func TestWritable(t *testing.T) {
	for variables, want := range map[string]string{
		"read_only=OFF": "",
		"read_only=OFF super_read_only=OFF innodb_read_only=OFF": "",
		"read_only=0":                       "",
		"read_only=ON":                      "read_only is ON, and a primary is wanted",
		"read_only=1":                       "read_only is 1, and a primary is wanted",
		"read_only=NO_LOCK_NO_ADMIN":        "read_only is NO_LOCK_NO_ADMIN, and a primary is wanted",
		"read_only=OFF super_read_only=ON":  "super_read_only is ON, and a primary is wanted",
		"read_only=OFF innodb_read_only=ON": "innodb_read_only is ON, and a primary is wanted",
		"read_only=ON super_read_only=ON":   "read_only is ON, and a primary is wanted",
		"":                                  "does not say whether it is read-only, and a primary is wanted",
		"version=8.4.0 innodb_read_only=\x01\xff": `innodb_read_only is "\x01\xff", and a primary is wanted`,
	} {
		wantReason(t, variables, writable(rowOf(variables)), want)
	}
}

func TestSynced(t *testing.T) {
	const good = "wsrep_ready=ON wsrep_cluster_status=Primary wsrep_local_state=4 wsrep_local_state_comment=Synced"
	for _, c := range []struct{ variables, status, want string }{
		{"wsrep_on=ON wsrep_reject_queries=NONE", good, ""},
		{"wsrep_on=ON", good, ""}, // Percona's has no reject
		{"", "", "is no node of a Galera cluster: it has no wsrep_ready"},
		{"wsrep_on=OFF", "wsrep_ready=ON", "wsrep_on is OFF: takes no part in the cluster"},
		{"wsrep_on=ON", "wsrep_ready=OFF", "wsrep_ready is OFF"},
		{"wsrep_on=ON", "wsrep_ready=ON wsrep_cluster_status=non-Primary wsrep_local_state=4", "wsrep_cluster_status is non-Primary, not Primary"},
		{"wsrep_on=ON", "wsrep_ready=ON wsrep_cluster_status=Primary wsrep_local_state=2 wsrep_local_state_comment=Donor/Desynced",
			"wsrep_local_state is 2 (Donor/Desynced), not 4 (Synced)"},
		{"wsrep_on=ON", "wsrep_ready=ON wsrep_cluster_status=Primary", `wsrep_local_state is "" (""), not 4 (Synced)`},
		{"wsrep_on=ON wsrep_reject_queries=ALL_KILL", good, "wsrep_reject_queries is ALL_KILL"},
	} {
		wantReason(t, c.variables+" "+c.status, synced(rowOf(c.variables), rowOf(c.status)), c.want)
	}
}

func TestSourcesQuery(t *testing.T) {
	for version, want := range map[string]string{
		"10.11.19-MariaDB-0+deb12u1-log": "SHOW ALL SLAVES STATUS",
		"5.5.5-10.6.4-MariaDB":           "SHOW ALL SLAVES STATUS",
		"8.0.22":                         "SHOW REPLICA STATUS",
		"8.0.36-28":                      "SHOW REPLICA STATUS",
		"8.4.0":                          "SHOW REPLICA STATUS",
		"9.1.0-commercial":               "SHOW REPLICA STATUS",
		"8.0.21":                         "SHOW SLAVE STATUS",
		"5.7.44-log":                     "SHOW SLAVE STATUS",
		"":                               "SHOW SLAVE STATUS",
	} {
		if got := sourcesQuery(version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestReplicates(t *testing.T) {
	const (
		runs = "Slave_IO_Running=Yes Slave_SQL_Running=Yes Seconds_Behind_Master=3"
		new  = "Replica_IO_Running=Yes Replica_SQL_Running=Yes Seconds_Behind_Source=3"
	)
	for _, c := range []struct {
		role    string
		lag     time.Duration
		sources []string
		want    string
	}{
		{"replica", 0, nil, "has no source to replicate from, and a replica is wanted"},
		{"any", time.Second, nil, ""},
		{"replica", 0, []string{runs}, ""},
		{"replica", 3 * time.Second, []string{runs}, ""},
		{"replica", 3 * time.Second, []string{new}, ""},
		{"replica", 2999 * time.Millisecond, []string{new}, "lags 3s, more than 2.999s"},
		{"any", 2 * time.Second, []string{runs}, "lags 3s, more than 2s"},
		{"replica", 0, []string{"Slave_IO_Running=Connecting Slave_SQL_Running=Yes Seconds_Behind_Master="}, ""},
		{"replica", time.Hour, []string{"Slave_IO_Running=Connecting Slave_SQL_Running=Yes Seconds_Behind_Master="},
			"does not say how far it lags: Seconds_Behind_Master is NULL, Slave_IO_Running is Connecting, Slave_SQL_Running is Yes"},
		{"replica", time.Hour, []string{"Replica_IO_Running=Connecting Replica_SQL_Running=Yes Seconds_Behind_Source="},
			"does not say how far it lags: Seconds_Behind_Source is NULL, Replica_IO_Running is Connecting, Replica_SQL_Running is Yes"},
		{"replica", 0, []string{"Slave_IO_Running=No Slave_SQL_Running=Yes Last_IO_Errno=1236 Last_IO_Error=binlog"},
			"Slave_IO_Running is No (error 1236), and a replica is wanted"},
		{"replica", 0, []string{"Replica_IO_Running=Yes Replica_SQL_Running=No Last_SQL_Errno=1062 Last_SQL_Error=alice"},
			"Replica_SQL_Running is No (error 1062), and a replica is wanted"},
		{"replica", 0, []string{"Something=Else"}, `Slave_IO_Running is "" (error ""), and a replica is wanted`},
		{"any", time.Minute, []string{"Slave_IO_Running=No Slave_SQL_Running=No Seconds_Behind_Master="},
			"does not say how far it lags: Seconds_Behind_Master is NULL, Slave_IO_Running is No, Slave_SQL_Running is No"},
		{"replica", 0, []string{"Connection_name= " + runs, "Connection_name=east Slave_IO_Running=No Slave_SQL_Running=Yes Last_IO_Errno=0"},
			`source "east": Slave_IO_Running is No (error 0), and a replica is wanted`},
		{"replica", time.Second, []string{"Channel_Name=west " + new}, `source "west": lags 3s, more than 1s`},
	} {
		var sources []row
		for _, s := range c.sources {
			sources = append(sources, rowOf(s))
		}
		o := Options{Role: c.role, MaxLag: c.lag}
		wantReason(t, c.role+" "+strings.Join(c.sources, "; "), o.replicates(sources), c.want)
	}
}
