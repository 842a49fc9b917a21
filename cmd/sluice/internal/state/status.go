package state

import (
	"errors"
	"time"

	"sluice/admin"
	"sluice/cmd/sluice/internal/logs"

	"go.uber.org/zap"
)

const (
	// again is how long after a failure the next attempt follows, and repeated how
	// long the log does without the same warning. Chosen.
	again    = 30 * time.Second
	repeated = 10 * time.Minute
)

// errSlow is the error of a write that Save no longer waits for.
var errSlow = errors.New("the file system does not answer")

// Status tells how the file fares.
func (k *Keeper) Status() admin.StateFile {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

// saved notes that nothing is left to be written.
func (k *Keeper) saved(wrote bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	recovered := !k.status.Saved
	k.status.Path, k.status.Saved = k.place, true
	if recovered || wrote {
		k.status.Error = ""
	}
	if wrote {
		k.status.LastWritten = time.Now()
	}
	if recovered {
		k.warned = time.Time{}
		k.options.Log.Info("state file written again", zap.String(logs.Path, k.place))
	}
}

// failed notes that something could not be written, and has it tried again.
func (k *Keeper) failed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	repeats := k.status.Error == err.Error() && time.Since(k.warned) < repeated
	k.status.Path, k.status.Saved = k.place, false
	k.status.Error = err.Error()
	k.status.Failures++
	if !repeats {
		k.warned = time.Now()
		k.warn("state file not written: a restart would lose what the API changed", err)
	}
	if k.retry == nil && !k.closed {
		k.retry = time.AfterFunc(again, k.tryAgain)
	}
}

func (k *Keeper) tryAgain() {
	k.mu.Lock()
	k.retry = nil
	k.mu.Unlock()
	k.Save()
}

func (k *Keeper) warn(what string, err error) {
	k.options.Log.Warn(what, zap.NamedError(logs.Error, err))
}
