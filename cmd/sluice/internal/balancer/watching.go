package balancer

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/cmd/sluice/internal/watch"

	"go.uber.org/zap"
)

// byWatch is who asked for a reload that nobody asked for.
const byWatch = "watch"

// useWatch begins or ends the watch of the file, as c says. It does not wait: the
// reload that ends it may be its own.
func (b *Balancer) useWatch(c *config.Config) {
	on := c.Process.Watch && b.options.File != ""
	switch {
	case on && b.unwatch == nil:
		ctx, cancel := context.WithCancel(context.Background())
		b.unwatch = cancel
		b.watchs.Go(func() { watch.Run(ctx, b.watchOptions()) })
	case !on && b.unwatch != nil:
		b.unwatch()
		b.unwatch = nil
	}
}

func (b *Balancer) watchOptions() watch.Options {
	return watch.Options{
		Files: func() []string {
			files := []string{b.options.File}
			for _, named := range *b.named.Load() {
				files = append(files, absolute(named))
			}
			return files
		},
		Read:    func() watch.Reading { return b.options.read(*b.named.Load()) },
		Dealt:   func(r watch.Reading) bool { return r == *b.dealt.Load() },
		Apply:   b.noticed,
		Missing: b.missing,
		Blind: func(err error) {
			b.log.Warn("the kernel does not tell of changes: the configuration is read every few seconds", zap.NamedError(logs.Error, err))
		},
	}
}

// noticed is the reload of a watch. It reports false if it has done nothing and
// said nothing: because the process ends, because the file moved, or because it is
// broken and has not been quiet for long.
func (b *Balancer) noticed(ctx context.Context, quiet bool) bool {
	if b.take(ctx) != nil {
		return false
	}
	defer b.give()
	l := b.load()
	if b.draining.Load() || l.moved || l.err != nil && !quiet {
		return false
	}
	_, _ = b.conclude(byWatch, l) // it tells the log
	return true
}

// absolute makes a path one that links can be looked for in.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// missing notes that the file has no content, or, with "", that it has the
// content again that was dealt with last.
func (b *Balancer) missing(why string) {
	path := zap.String(logs.Path, b.options.File)
	if why == "" {
		b.note(byWatch, nil)
		b.log.Info("configuration file is back, unchanged", path)
		return
	}
	why = "configuration file " + why
	b.note(byWatch, errors.New(why))
	b.log.Warn(why+"; the configuration in force stays", path)
}

// endWatch ends the watch of the file. It waits a moment for a reload of it: only
// a file system that does not answer takes longer.
func (b *Balancer) endWatch() {
	if b.unwatch != nil {
		b.unwatch()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.watchs.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
}
