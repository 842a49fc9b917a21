package balancer

import (
	"context"
	"fmt"
)

// reloading tells who wants to know that a reload changes things from now on,
// and returns what tells of its end.
func (b *Balancer) reloading() (over func(error)) {
	if b.options.Reloading == nil {
		return func(error) {}
	}
	end := b.options.Reloading()
	return func(err error) {
		text := b.Summary()
		if err != nil {
			text += "; the last reload was refused: " + err.Error()
		}
		end(text)
	}
}

// Summary is what runs, in a few words.
func (b *Balancer) Summary() string {
	v := b.view.Load()
	return fmt.Sprintf("generation %d, frontends: %d, pools: %d, sessions: %d",
		v.generation, len(v.frontends), len(v.pools), b.limit.Active())
}

// Left is what a stop still waits for: sessions and requests through /proxy.
func (b *Balancer) Left() int64 { return b.limit.Active() + b.admin.Active() }

// Answers reports whether what drives the sessions works, unless ctx ends first.
func (b *Balancer) Answers(ctx context.Context) bool { return b.engine.Answers(ctx) }
