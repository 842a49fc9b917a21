package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"

	"sluice/pool/health"

	"github.com/go-sql-driver/mysql"
)

// login waits for the greeting and logs in. The library takes most lengths that a
// server sends for granted: one that lies makes it panic.
func (p *prober) login(ctx context.Context, v *visit) (s session, err error) {
	defer recovered(&err)
	if err := v.wire.greet(); err != nil {
		return session{}, err
	}
	v.at(greeted)
	connector, err := mysql.NewConnector(p.config(v))
	if err != nil {
		return session{}, fmt.Errorf("log in: %w", err)
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return session{}, p.fault(ctx, v.wire, err)
	}
	return session{conn: c, wire: v.wire}, nil
}

// recovered is deferred; it makes a panic of the library an error. The library
// leaves a goroutine behind then, so that such a server is not asked often.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = &refused{text: "no answer of MySQL: a packet is too short", longest: longestBroken}
	}
}

// config is how the library logs in over a connection that is there already.
func (p *prober) config(v *visit) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd = p.options.User, p.options.Password
	c.Net, c.Addr = "tcp", v.target.Address
	c.ConnectionAttributes = "program_name:sluice-probe"
	c.Logger = &mysql.NopLogger{} // the default writes to standard error
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return v.wire, nil }
	if path, ok := strings.CutPrefix(v.target.Address, "unix:"); ok {
		c.Net, c.Addr = "unix", path
	}
	c.TLS = v.target.TLS(p.options.TLS)
	return c
}

// fault says why a login failed, and how careful to be with the next.
func (p *prober) fault(ctx context.Context, w *wire, err error) error {
	var said *mysql.MySQLError
	switch {
	case errors.As(err, &said):
		f := &refused{text: "login refused: " + words(said, p.options.Password)}
		if denies(said) {
			f.longest = longestDenied
		}
		return f
	case ctx.Err() != nil:
		return errors.New(greeted.String())
	case w.fault != nil:
		return fmt.Errorf("no answer to the login: got %s", ending(w.fault))
	}
	// It is us who broke it off, for what was said and not for the connection.
	text := health.Said(err.Error(), p.options.Password)
	if about, ok := strings.CutPrefix(text, "tls: "); ok {
		return &refused{text: "TLS: " + about, longest: longestBroken}
	}
	return &refused{text: "log in: " + text, longest: longestBroken}
}

// denies reports whether the server knows the user and lets it not in, or does not
// know it: it will say the same until somebody does something about it. The class
// of SQL states is 28; the two without it are of locked accounts, of MySQL and
// MariaDB.
func denies(e *mysql.MySQLError) bool {
	return strings.HasPrefix(string(e.SQLState[:]), "28") || e.Number == 3118 || e.Number == 4151
}

// words is what a server said.
func words(e *mysql.MySQLError, password string) string {
	return fmt.Sprintf("error %d: %s", e.Number, health.Said(e.Message, password))
}

// session is a login that worked.
type session struct {
	conn driver.Conn
	wire *wire
}
