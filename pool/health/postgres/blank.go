package postgres

import (
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgconn"
)

// settled are all settings that the library would else take from the environment
// or from a file. A host that is a path keeps it from looking for certificates.
const settled = "host=/nowhere port=1 user=nobody password=none dbname=none application_name=sluice " +
	"connect_timeout=0 sslmode=disable sslcertmode=allow sslnegotiation=postgres target_session_attrs=any " +
	"min_protocol_version=3.0 max_protocol_version=3.0 channel_binding=prefer require_auth=''"

// blank returns settings that owe nothing to the environment; those of a server
// are still to be filled in. The library makes settings by its own func alone, and
// that one cannot be told to read no service file: so the variable that names a
// service goes, for the whole process, which starts no other.
func blank() (*pgconn.Config, error) {
	os.Unsetenv("PGSERVICE")
	set, err := pgconn.ParseConfig(settled)
	if err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	set.RuntimeParams = map[string]string{"application_name": "sluice"}
	return set, nil
}
