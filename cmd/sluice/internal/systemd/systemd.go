// Package systemd tells a service manager what the process is about, and takes
// over the sockets that it has opened. Without one it does nothing.
//
// It knows nothing of what runs: its caller says when. A manager that does not
// read keeps nobody waiting for long. Safe for concurrent use.
package systemd

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// extension is how much more time a stop asks for with each line about it.
// Chosen: several times the second between two.
const extension = 10 * time.Second

// Manager is the service manager that started the process, if one did.
type Manager struct{ mail outbox }

// New returns the manager; what it does not take is logged to log.
func New(log *zap.Logger) *Manager { return &Manager{outbox{log: log}} }

// tell sends some assignments, of which the first says what kind they are.
func (m *Manager) tell(lines ...string) { m.mail.post(lines[0], strings.Join(lines, "\n")) }

// status is a text for "systemctl status": one line.
func status(text string) string { return "STATUS=" + strings.ReplaceAll(text, "\n", "; ") }

// Ready says that the process serves, after its start or a reload.
func (m *Manager) Ready(text string) { m.tell(daemon.SdNotifyReady, status(text)) }

// Reloading says that a reload has begun. Ready must follow, whatever comes of
// it.
func (m *Manager) Reloading() {
	m.tell(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", monotonic().Microseconds()))
}

// Stopping says that the process is on its way out.
func (m *Manager) Stopping(text string) { m.tell(daemon.SdNotifyStopping, status(text)) }

// Draining says how a stop goes on, and asks for the time to go on with it.
func (m *Manager) Draining(text string) {
	m.tell(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", extension.Microseconds()), status(text))
}

// Watch tells the manager that the process works, as often as it wants to hear
// it, for as long as answers says so, until ctx ends. The context of answers ends
// when the next time would come.
func (m *Manager) Watch(ctx context.Context, answers func(context.Context) bool) {
	patience, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		m.mail.log.Warn("watchdog", zap.NamedError("error", err))
	}
	if patience <= 0 {
		return
	}
	every := patience / 2
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if m.asked(ctx, every, answers) {
			m.tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// asked reports whether there was an answer in time.
func (m *Manager) asked(ctx context.Context, within time.Duration, answers func(context.Context) bool) bool {
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ok := answers(short)
	if !ok && ctx.Err() == nil {
		m.mail.log.Error("watchdog: an event loop does not answer", zap.Duration("timeout", within))
	}
	return ok
}

// Listeners returns the sockets that the manager has opened for this process. It
// must be called once. What is no listening stream socket is left out.
func Listeners() []net.Listener {
	all, _ := activation.Listeners() // it has no error
	var usable []net.Listener
	for _, ln := range all {
		if ln != nil {
			usable = append(usable, ln)
		}
	}
	return usable
}
