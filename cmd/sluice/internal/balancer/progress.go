package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"sluice/admin"
	"sluice/cmd/internal/config"
	"sluice/cmd/sluice/internal/logs"
	"sluice/l4"

	"go.uber.org/zap"
)

// A drain tells of its progress after progressMin, and then at twice the distance
// each time, up to progressMax. Chosen: a drain of a day is some 1,500 lines.
const (
	progressMin = 5 * time.Second
	progressMax = time.Minute
)

// namedFrontends bounds the frontends that a line of progress names. Chosen.
const namedFrontends = 5

func newDrain(began time.Time, p config.Process) *admin.Drain {
	closes := began.Add(p.PreDrainDelay)
	return &admin.Drain{Since: began, AcceptsUntil: closes, Until: closes.Add(p.DrainTimeout)}
}

// drainStatus returns how the drain goes on; nil without one.
func (b *Balancer) drainStatus() *admin.Drain {
	d := b.drains.Load()
	if d == nil {
		return nil
	}
	now := *d
	now.Sessions = b.left()
	return &now
}

// left returns how many sessions and requests through /proxy there are.
func (b *Balancer) left() int64 { return b.limit.Active() + b.admin.Active() }

// everyNowAndThen calls tell until over is closed.
func everyNowAndThen(over <-chan struct{}, tell func()) {
	for wait := progressMin; ; wait = min(2*wait, progressMax) {
		select {
		case <-over:
			return
		case <-time.After(wait):
			tell()
		}
	}
}

// tellProgress writes what a drain still waits for.
func (b *Balancer) tellProgress(d *admin.Drain) {
	until, waits := d.Until, b.busiest()
	if time.Now().Before(d.AcceptsUntil) {
		until, waits = d.AcceptsUntil, []string{"the delay before the listeners close"}
	}
	b.log.Info("still draining", zap.Int64(logs.Sessions, b.left()),
		zap.Strings(logs.WaitsFor, waits), zap.Time(logs.Until, until))
}

// busiest names what has most sessions left.
func (b *Balancer) busiest() (names []string) {
	list := append(b.Frontends(), l4.Status{Name: "/proxy", Active: b.admin.Active()})
	slices.SortStableFunc(list, func(x, y l4.Status) int { return cmp.Compare(y.Active, x.Active) })
	for _, f := range list {
		if f.Active > 0 && len(names) < namedFrontends {
			names = append(names, fmt.Sprintf("%s: %d", f.Name, f.Active))
		}
	}
	return names
}
