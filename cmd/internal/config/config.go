// Package config turns a TOML file into a [Config], or into a list of everything
// that is wrong with it.
//
// It owns the names, defaults and bounds of every key, and the wording of every
// mistake. It opens no socket, resolves no name and starts nothing; beside the
// configuration itself it reads the files that this names. Its funcs
// keep no state and are safe for concurrent use.
//
//	text -- decode --> tree of tables, line of every key
//	     -- read ----> Config, each key checked where it is read
//	     -- check ---> what holds between tables: names, references, addresses
//
// The toml library decodes into a plain tree and not into structs: it matches
// the fields of a struct whatever their case, stops at the first value of a
// wrong type, and knows neither the line of a key nor which [[pool]] it is in.
// An operator wants all mistakes at once, each with its line. So a table is read
// key by key through [table], which notes a mistake and goes on with the default.
//
// Invariants:
//
//   - A Config that is returned has no mistake; with a mistake there is none.
//   - No key is ignored: it is read, or unknown.
//   - Secrets never appear in a message.
package config

import (
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"syscall"
	"time"

	"sluice/admin"
	"sluice/l4/session"
	"sluice/pool"
	"sluice/pool/health"
)

// Config is a file that was found valid: every default applied, every
// reference resolved, no raw text left to interpret.
type Config struct {
	Process   Process
	Log       Log
	Admin     Admin
	Frontends []Frontend // in the order of the file
	Pools     []Pool
	Warnings  []string // valid but unwise, with file, line and key
}

// Process is the [process] table.
type Process struct {
	DrainTimeout  time.Duration
	PreDrainDelay time.Duration // not ready and still accepting, before DrainTimeout
	Watch         bool          // reload when the content of the file changes
	StateFile     string        // empty: the default place; "none": off
	Engine        string        // auto, copy or epoll
	Loops         int           // event loops of epoll; 0 is one for each processor
	MaxSessions   int           // 0: derived from the descriptor limit
	Zone          string        // where this process is; empty: not said
	Resolver      string        // "ip:port" of the DNS server for names of backends; empty: the system's
}

// Log is the [log] table.
type Log struct {
	Level    string // debug, info, warn or error
	Format   string // console or json
	Access   string // all, failed or off
	LogEmpty bool
}

// Admin is the [admin] table.
type Admin struct {
	Listen      string // empty: off
	Mode        uint32 // of a unix socket
	ProbeListen string // empty: none
	ProxyListen string // empty: none
	TokenFile   string // that the tokens were read from; empty: none
	Settings    admin.Settings
}

// Frontend is one [[frontend]].
type Frontend struct {
	Name        string
	Listen      string
	Mode        uint32 // of a unix socket
	Pool        string
	MaxSessions int
	Admission   Admission
	Settings    session.Settings
}

// Admission is who may come in through a frontend.
type Admission struct {
	SessionsPerClient int            // at the same time; 0 is no limit
	RatePerClient     int            // new sessions per second; 0 is no limit
	Allow, Deny       []netip.Prefix // masked and unmapped; no Allow is everybody, Deny wins
	Header            string         // PROXY header: off, accept or require
	HeaderFrom        []netip.Prefix // peers that may send one
	HeaderTimeout     time.Duration
}

// Pool is one [[pool]].
type Pool struct {
	Name         string
	Config       pool.Config
	Groups       []Group       // names that each stand for several backends, in the order of the file
	ResolveEvery time.Duration // how often these are looked up
	Probe        Probe
	Health       health.Policy
	Outliers     Outliers
}

// Group is one [[pool.backend]] whose name stands for several backends.
type Group struct {
	Spec pool.Spec // of each, but for the id, which is the first part of theirs, and the address
	Host string    // the name
	Port uint16    // of each; 0 with SRV, whose records say it
	SRV  bool      // SRV records, not A and AAAA
	At   int       // its place among the backends of the pool: that of the first of them
}

// Outliers is [pool.outliers].
type Outliers struct {
	Detect       bool
	Interval     time.Duration // the sessions of which are judged together
	MinSessions  int           // of a backend in an interval: with fewer there is no judgement
	FailureShare int           // percent of them that failed; 0: not looked at
	Early        time.Duration // a session that its backend ends sooner has failed
	DialFactor   int           // mean dial time in medians of the others; 0: not looked at
	MaxEjected   int           // percent of the pool
	EjectFor     time.Duration // the first time; each repeat adds as much
	EjectMax     time.Duration
}

// Probe is what one active check of a backend does. Its zero value is none.
type Probe struct {
	Kind    string // none, tcp, http, redis, postgres or mysql
	Send    string // tcp: bytes to send
	Expect  string // tcp: a regular expression that the answer must match; empty: any, also none
	Path    string // http
	Host    string // http: empty is the address probed
	Status  []StatusRange
	Port    int    // instead of the backend's; 0: the backend's
	Address string // host instead of the backend's; empty: the backend's

	// Of the kinds that log in.
	Role         string // any, primary or replica
	User         string // empty: none
	PasswordFile string // that Password was read from; empty: none
	PasswordEnv  string // the variable that it was read from; empty: none
	Password     Secret
	Database     string        // postgres; empty: postgres
	MaxLag       time.Duration // of a replica; 0: not looked at
	MinReplicas  int           // of a primary, redis
	WsrepReady   bool          // mysql: its node of a Galera cluster must be ready
	TLS          TLS
}

// Secret is a text that is never shown.
type Secret string

// String hides the secret, and so does GoString.
func (Secret) String() string { return "(secret)" }

// GoString is String.
func (Secret) GoString() string { return "(secret)" }

// TLS is how a probe encrypts, with the content of the files that the table names.
type TLS struct {
	Mode       string // off, require (whoever answers) or verify
	CAFile     string // empty: the system's
	CertFile   string // empty: none
	KeyFile    string // empty: the key is in CertFile
	CA         []byte
	Cert       []byte
	Key        Secret
	ServerName string // empty: the host that is probed
}

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct{ First, Last int }

// Load reads and checks the file at path. The error lists every mistake, one
// per line, each with file, line, key and what to do about it.
func Load(path string) (*Config, error) {
	text, _, err := readFile(path, maxSize)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(path, text)
}

// readFile reads a regular file, and at most one byte more than limit. It opens
// without waiting: a pipe that nobody writes to would hang.
func readFile(path string, limit int64) (text []byte, info fs.FileInfo, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err = f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return nil, nil, err
	}
	text, err = io.ReadAll(io.LimitReader(f, limit+1))
	return text, info, err
}

// Parse is Load for text that was read already; path is for messages alone.
func Parse(path string, text []byte) (*Config, error) {
	return parse(&input{file: path}, text)
}

// Sketch is Parse for text that somebody sent. It opens no file, and looks at no
// variable, but those that inForce names (which may be nil), so that nobody can ask
// for the mistakes, or the existence, of another.
func Sketch(path string, text []byte, inForce *Config) (*Config, error) {
	return parse(&input{file: path, sketch: true, inForce: inForce}, text)
}

func parse(in *input, text []byte) (*Config, error) {
	root, where, err := decode(in.file, text)
	if err != nil {
		return nil, err
	}
	in.lines = where
	c := in.config(in.open(rootKeys, "", "", root))
	if err := in.err(); err != nil {
		return nil, err
	}
	c.Warnings = in.warned()
	return c, nil
}
