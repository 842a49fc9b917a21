package systemd

import (
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
)

// patience is how long a message is waited for: a manager that is busy must not
// hold up reloads, nor a stop. Chosen.
const patience = time.Second

// outbox sends messages one after the other. A send takes as long as the manager
// does not read; what comes meanwhile waits here, of each kind the newest.
type outbox struct {
	log *zap.Logger

	mu      sync.Mutex // guards what follows
	waiting []letter
	sending bool
	late    bool   // the send under way takes longer than patience, which was told
	fault   string // of the newest send; told once in a row
}

type letter struct {
	kind, text string
	sent       chan struct{} // closed once it went out, or was replaced
}

// post sends text, and waits for it within bounds.
func (o *outbox) post(kind, text string) {
	l := letter{kind, text, make(chan struct{})}
	if !o.add(l) {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-l.sent:
	case <-late.C:
		o.overdue()
	}
}

// add reports whether l may be out soon.
func (o *outbox) add(l letter) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting = slices.DeleteFunc(o.waiting, func(old letter) bool {
		same := old.kind == l.kind
		if same {
			close(old.sent)
		}
		return same
	})
	o.waiting = append(o.waiting, l)
	if !o.sending {
		o.sending = true
		go o.send()
	}
	return !o.late
}

// send sends what waits, until nothing does.
func (o *outbox) send() {
	for l, more := o.next(); more; l, more = o.next() {
		_, err := daemon.SdNotify(false, l.text)
		o.done(err)
		close(l.sent)
	}
}

func (o *outbox) next() (l letter, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		o.sending = false
		return l, false
	}
	l = o.waiting[0]
	o.waiting = o.waiting[1:]
	return l, true
}

func (o *outbox) done(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late = false
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != "" && fault != o.fault {
		o.log.Warn("service manager not told", zap.NamedError("error", err))
	}
	o.fault = fault
}

func (o *outbox) overdue() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sending && !o.late {
		o.late = true
		o.log.Warn("service manager does not read what it is told", zap.Duration("timeout", patience))
	}
}
