package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/pool/health"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// query asks for all that a verdict needs, and anybody may ask it. Of what feeds it
// a standby tells everybody that there is something, and how much is still to be
// received those alone who have pg_read_all_stats. After a restart a standby has
// replayed more from its own disk than it has received.
const query = `
select pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', fed,
	due, coalesce(due <= pg_last_wal_replay_lsn(), false),
	extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())
from (select exists (select from pg_stat_wal_receiver where pid is not null) as fed,
	greatest((select latest_end_lsn from pg_stat_wal_receiver), pg_last_wal_receive_lsn()) as due) as receiver`

// state is what a server says of itself; of the rest a standby alone.
type state struct {
	standby  bool
	readOnly bool // for whoever asks
	fed      bool // it is connected to a server that it gets changes from
	due      string
	caughtUp bool // it has replayed everything up to due, what it knows of
	age      time.Duration
	aged     bool // age is known: since the last transaction that it has replayed
}

// look asks server what it is, and judges.
func (o Options) look(ctx context.Context, server *pgconn.PgConn) error {
	row, err := one(server.Exec(ctx, query).ReadAll())
	if err != nil {
		return o.refusal(ctx, err)
	}
	s, err := read(row)
	if err != nil {
		return err
	}
	if err := o.role(s); err != nil || !s.standby || o.MaxLag == 0 {
		return err
	}
	if o.close(s) || s.fed && s.due != "" && o.follows(ctx, server, s.due) {
		return nil
	}
	return o.behind(s)
}

// one returns the only row of an answer.
func one(results []*pgconn.Result, err error) ([][]byte, error) {
	if err == nil && (len(results) != 1 || len(results[0].Rows) != 1) {
		err = errors.New("not the one row that was asked for")
	}
	if err != nil {
		return nil, err
	}
	return results[0].Rows[0], nil
}

// read reads the row that query asks for.
func read(row [][]byte) (state, error) {
	if len(row) != 6 {
		return state{}, fmt.Errorf("answered with %d columns, not the 6 that were asked for", len(row))
	}
	is := func(i int) bool { return string(row[i]) == "t" }
	s := state{standby: is(0), readOnly: is(1), fed: is(2), due: string(row[3]), caughtUp: is(4)}
	if seconds, err := strconv.ParseFloat(string(row[5]), 64); err == nil {
		s.age, s.aged = time.Duration(seconds*float64(time.Second)), true
	}
	return s, nil
}

// role says why a server of that role is not wanted.
func (o Options) role(s state) error {
	switch {
	case s.standby && o.Role == "primary":
		return errors.New("is a replica, and a primary is wanted")
	case !s.standby && o.Role == "replica":
		return errors.New("is a primary, and a replica is wanted")
	case s.readOnly && o.Role == "primary":
		return errors.New("is a primary that takes no writes: its transactions are read only")
	}
	return nil
}

// close reports whether a standby is near enough, at first sight. One that is fed
// and has nothing to do does not lag, however old its last transaction is.
func (o Options) close(s state) bool {
	return s.fed && s.caughtUp || s.aged && s.age <= o.MaxLag
}

// followGap is the time between two looks at a standby that has something to do.
// Chosen: a healthy one has done it at the first.
const followGap = 20 * time.Millisecond

// follows reports whether a standby replays within MaxLag what was due. The age of
// its last transaction says nothing if none was made for an hour, or if one takes
// as long. It uses up to half of the time that the probe has left.
func (o Options) follows(ctx context.Context, server *pgconn.PgConn, due string) bool {
	for end := o.patience(ctx); time.Now().Before(end); {
		r := server.ExecParams(ctx, "select pg_last_wal_replay_lsn() >= $1::text::pg_lsn", [][]byte{[]byte(due)}, nil, nil, nil).Read()
		if r.Err != nil || len(r.Rows) != 1 {
			return false
		}
		if string(r.Rows[0][0]) == "t" {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(followGap):
		}
	}
	return false
}

// patience is until when follows looks.
func (o Options) patience(ctx context.Context) time.Time {
	now := time.Now()
	wait := o.MaxLag
	if d, ok := ctx.Deadline(); ok {
		wait = min(wait, d.Sub(now)/2)
	}
	return now.Add(wait)
}

// behind says how far a standby lags.
func (o Options) behind(s state) error {
	lag := "has replayed no transaction yet that says how far it lags"
	if s.aged {
		lag = fmt.Sprintf("lags %s, more than %s", s.age.Round(100*time.Millisecond), o.MaxLag)
	}
	if !s.fed {
		lag += ", and is not connected to its primary"
	}
	return errors.New(lag)
}

// refusal says why there is no answer.
func (o Options) refusal(ctx context.Context, err error) error {
	var said *pgconn.PgError
	var long *pgproto3.ExceededMaxBodyLenErr
	switch {
	case errors.As(err, &said):
		return errors.New(health.Said(said.Error(), o.Password))
	case errors.As(err, &long):
		return fmt.Errorf("no answer of PostgreSQL: got a message of %d bytes", long.ActualBodyLen)
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return errors.New(health.Said(innermost(err), o.Password))
}

// ofTLS begins an error of the library about the encryption.
const ofTLS = "tls error: "

// innermost leaves out what the library adds to an error: a user, a database, and
// an address that nobody has dialed.
func innermost(err error) string {
	before := "no answer: got "
	for {
		if strings.HasPrefix(err.Error(), ofTLS) {
			before = "TLS: "
		}
		next := errors.Unwrap(err)
		if several, ok := err.(interface{ Unwrap() []error }); ok && len(several.Unwrap()) > 0 {
			next = several.Unwrap()[0]
		}
		if next == nil {
			// The library adds an error that is none.
			return before + strings.TrimSuffix(health.Ending(err), ": %!w(<nil>)")
		}
		err = next
	}
}
