package balancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/watch"
	"sluice/pool"
)

// Reload loads the configuration again, makes it current, and logs what came of
// it. by is who asked for it; ctx bounds its wait for an earlier reload. An error
// means that nothing changed.
func (b *Balancer) Reload(ctx context.Context, by string) (admin.Reloaded, error) {
	if b.draining.Load() { // told at once, whatever the file system does
		b.options.Logs.Reload(by, admin.Reloaded{}, ErrStopping)
		return admin.Reloaded{}, ErrStopping
	}
	if err := b.take(ctx); err != nil {
		return admin.Reloaded{}, err
	}
	defer b.give()
	return b.conclude(by, b.load())
}

// take begins a turn, which give ends.
func (b *Balancer) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("reload: another one is under way: %w", ctx.Err())
	}
}

func (b *Balancer) give() { <-b.turn }

// conclude makes current what was loaded, and tells of it.
func (b *Balancer) conclude(by string, l loaded) (admin.Reloaded, error) {
	over := b.reloading()
	done, err := b.reload(l)
	defer func() { over(err) }()
	b.named.Store(&l.named)
	b.dealt.Store(l.reading())
	if err == nil {
		b.state.Use(b.statePlace(b.view.Load().config)) // the file may have won, or name another place
	}
	b.note(by, err)
	b.options.Logs.Reload(by, done, err)
	return done, err
}

// note remembers how an attempt to make the file current ended.
func (b *Balancer) note(by string, err error) {
	last := admin.LastReload{At: time.Now(), By: by, Successful: err == nil}
	if err != nil {
		last.Errors = strings.Split(err.Error(), "\n")
	}
	b.last.Store(&last)
}

// mistakes splits an error that names several things. A stop has ended what was
// under way, whatever that says.
func (b *Balancer) mistakes(err error) error {
	if b.draining.Load() {
		return ErrStopping
	}
	return admin.Errors(strings.Split(err.Error(), "\n"))
}

// reload makes current what was loaded.
func (b *Balancer) reload(l loaded) (admin.Reloaded, error) {
	if l.err == nil {
		defer b.lookUp(l.config)()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopping {
		return admin.Reloaded{}, ErrStopping
	}
	c, err := l.config, l.err
	var edits []pool.Edit
	if err == nil {
		edits, err = b.update(c)
	}
	if err != nil {
		return admin.Reloaded{}, b.mistakes(err)
	}
	return b.answer(c, edits), nil
}

// answer is what a reload, or a dry run, says of c.
func (b *Balancer) answer(c *config.Config, edits []pool.Edit) admin.Reloaded {
	return admin.Reloaded{
		Generation:    b.view.Load().generation,
		Changes:       linesOf(edits),
		Plan:          edits,
		Warnings:      b.warnings(c),
		RestartNeeded: b.restartNeeded(c),
	}
}

// loaded is what came of reading the configuration.
type loaded struct {
	config *config.Config
	err    error

	// The content before and after it was read, with the files that were watched
	// then, and with named, those that the file names now. moved is set if what was
	// read may have been neither.
	before, after watch.Reading
	named         []string
	moved         bool
}

// reading returns the content that was dealt with; one that is like none if that
// is not known.
func (l loaded) reading() *watch.Reading {
	if l.moved {
		return &watch.Reading{}
	}
	return &l.after
}

// load reads the configuration while watched are the files that it named last.
func (o Options) load(watched []string) (l loaded) {
	l.before = o.read(watched)
	l.config, l.err = o.Load()
	l.named = watched
	if l.err == nil {
		o.place(l.config)
		l.named = l.config.Files()
	} else if next, ok := config.NamedFiles(o.File); ok {
		l.named = next // one of them may be all that is wrong
	}
	l.after = o.read(l.named)
	l.moved = l.before.File != l.after.File || slices.Equal(l.named, watched) && l.before != l.after
	return l
}

// place tells a configuration that does not say it where this process is.
func (o Options) place(c *config.Config) {
	if c.Process.Zone != "" || o.Zone == "" {
		return
	}
	c.Process.Zone = o.Zone
	for i := range c.Pools {
		c.Pools[i].Config.Policy.Zone = o.Zone
	}
}

// read reads what the watch compares.
func (o Options) read(named []string) watch.Reading {
	if o.File == "" {
		return watch.Reading{}
	}
	return watch.Read(o.File, named)
}

// loadTime bounds the reading of the file: a file system that does not answer
// must not end reloads for good. Chosen.
const loadTime = 10 * time.Second

// load is Options.load, given up after loadTime. What it still does then
// changes nothing.
func (b *Balancer) load() loaded {
	done := make(chan loaded, 1)
	named := *b.named.Load()
	go func() { done <- b.options.load(named) }()
	select {
	case l := <-done:
		return l
	case <-time.After(loadTime):
		err := fmt.Errorf("configuration: not read within %s; the file system does not answer", loadTime)
		return loaded{err: err, named: named, moved: true}
	}
}
