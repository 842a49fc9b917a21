// Package balancer holds what runs: pools with their monitors, frontends,
// listening sockets, the process limit and the admin side, and moves them from
// one configuration to the next.
//
// Start and reload are the same three steps, so that a reload ends where a
// restart with the same file would:
//
//	plan    compare the new configuration with the one in force
//	bind    open the sockets that are new; the last step that can fail, and
//	        after a failure everything is as before
//	swap    pools, monitors, frontends, sockets, admin, log; cannot fail
//
// A dry run ends before bind. What asks for a reload is a signal, the API, or the
// watch of the file (package watch); the content that was loaded last, by
// whomever, is what the watch compares with.
//
// What lives across reloads is known by name: a pool and a frontend by theirs,
// a socket by the address it was asked to listen on. Which frontend gets a
// socket's clients may change, so a frontend can be renamed under an open
// socket, and can move to another socket with its counters and sessions.
//
// Only the owner of Balancer.mu changes anything. What the admin side reads is
// one view behind an atomic pointer, stored once at the end of a swap.
package balancer

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/discover"
	"sluice/cmd/sluice/internal/logs"
	"sluice/cmd/sluice/internal/state"
	"sluice/cmd/sluice/internal/watch"
	"sluice/l4"
	"sluice/l4/resolve"
	"sluice/l4/session"
	"sluice/pool"

	"go.uber.org/zap"
)

// ErrStopping is the answer to a reload that comes too late.
var ErrStopping = errors.New("the process is draining before its end, and reloads no more")

// Options are what a balancer is made of. File, Inherited and Reloading may be
// left out.
type Options struct {
	Load    func() (*config.Config, error) // reads the configuration, now and at every reload
	File    string                         // that Load reads: absolute; empty: nothing is watched, and nothing kept
	Logs    *logs.Logs
	Version string
	Zone    string // where this process is, unless the configuration says so; empty: not known

	Inherited []net.Listener // sockets to use instead of binding their addresses; closed if there is no use for one
	// Reloading is told that a reload begins, and what it returns that it is over.
	Reloading func() (over func(summary string))
}

// Balancer is everything that runs. Safe for concurrent use.
type Balancer struct {
	options  Options
	log      *zap.Logger
	started  time.Time
	engine   *l4.Engine // as the first configuration asks
	limit    *l4.Limit
	names    *resolve.Cache  // of backends
	found    *discover.Names // that stand for several backends each
	resolver atomic.Pointer[discover.Resolver]
	skipped  atomic.Pointer[map[string]skips] // by pool; the owner of mu stores
	web      session.Settings                 // of requests through /proxy
	admin    *admin.Server
	state    *state.Keeper // of what the API changed
	draining atomic.Bool
	drains   atomic.Pointer[admin.Drain] // nil before; without Sessions
	view     atomic.Pointer[view]
	last     atomic.Pointer[admin.LastReload]
	dealt    atomic.Pointer[watch.Reading] // content that was applied, or refused and told
	named    atomic.Pointer[[]string]      // files that it names

	asStarted config.Process // of the first configuration; of its engine and loops nothing changes

	// turn is held by one reload from before it reads the file, so that the file
	// that was read last is the one in force. A stop does not wait for it.
	turn chan struct{}

	lasting context.Context // ends when a stop begins
	hurry   context.CancelFunc

	ending sync.Once
	serves sync.WaitGroup // admin listeners
	watchs sync.WaitGroup // watches of the file, the newest of which may run

	// mu guards the fields below. It is held by one start or reload; once stopping
	// is set nothing changes them.
	mu        sync.Mutex
	stopping  bool
	config    *config.Config // in force
	pools     map[string]*watchedPool
	frontends map[string]*l4.Frontend
	sockets   map[place]*socket
	retired   retired
	restored  restored
	unwatch   func()    // ends the watch of the file; nil without one
	inherited inherited // empty after the start
}

// view is what the admin side sees: one configuration, published at once.
type view struct {
	config     *config.Config
	generation int64             // 0 until everything is bound
	frontends  []*l4.Frontend    // in the order of the file
	listens    map[string]string // address as bound, by frontend
	leaving    []*l4.Frontend    // removed, and perhaps with sessions still
	pools      []*pool.Pool      // in the order of the file
	removed    []*pool.Pool      // and perhaps with sessions still
}

// Start loads the configuration, binds every address and serves. An error means
// that nothing runs.
func Start(o Options) (*Balancer, error) {
	l := o.load(nil)
	if l.err != nil {
		return nil, l.err
	}
	c := l.config
	engine, err := l4.NewEngine(c.Process.Engine, c.Process.Loops)
	if err != nil {
		return nil, err
	}
	// A loop that waits or works keeps a thread; everything else has to run beside
	// them.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), engine.Loops()+1))
	b := &Balancer{
		options:   o,
		log:       o.Logs.Zap(),
		started:   time.Now(),
		engine:    engine,
		limit:     engine.NewLimit(c.Process.MaxSessions),
		web:       config.DefaultSettings(),
		config:    &config.Config{},
		pools:     make(map[string]*watchedPool),
		frontends: make(map[string]*l4.Frontend),
		sockets:   make(map[place]*socket),
		turn:      make(chan struct{}, 1),
		asStarted: c.Process,
		inherited: slices.Clone(o.Inherited),
	}
	b.lasting, b.hurry = context.WithCancel(context.Background())
	b.view.Store(&view{config: b.config})
	b.skipped.Store(&map[string]skips{})
	b.resolver.Store(discover.NewResolver(c.Process.Resolver))
	b.names = resolve.New(b.lookupAddresses, b.lookupFailed)
	b.found = discover.New(discover.Hooks{Answered: b.answered, Failed: b.unanswered})
	b.note("start", nil)
	b.named.Store(&l.named)
	b.dealt.Store(l.reading())
	b.admin = b.newAdmin(c.Admin.Settings)
	o.Logs.Use(c.Log)
	b.openState(c)
	defer b.lookUp(c)()
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.closeInherited()
	if _, err := b.apply(context.Background(), c); err != nil {
		b.stopping = true
		b.found.Close()
		b.names.Close()
		b.engine.Close()
		return nil, err
	}
	b.state.Save() // the file may have won
	b.tellRestored()
	b.announce()
	return b, nil
}

// update returns what changed, and nothing if c is what is in force. The text of
// the file does not matter: comments may differ, and the same text may name a
// token file with new content.
func (b *Balancer) update(c *config.Config) ([]pool.Edit, error) {
	if same(b.config, c) && b.bound(c) {
		return nil, nil
	}
	ctx, cancel := b.looking()
	defer cancel()
	return b.apply(ctx, c)
}

// apply moves everything from the configuration in force to c. ctx bounds the
// look-ups of names to listen on.
func (b *Balancer) apply(ctx context.Context, c *config.Config) ([]pool.Edit, error) {
	p := b.plan(c)
	if err := b.noCircle(p); err != nil {
		return nil, err
	}
	opened, err := b.bind(ctx, p)
	if err != nil {
		return nil, err
	}
	// From here on nothing can fail.
	b.restored.vet(opened)
	return b.swap(p, opened), nil
}
