package logs

import (
	"log"
	"strings"

	"go.uber.org/zap"
)

// TakeStandard makes the standard logger write here, until the func it returns
// is called. Libraries use it for what they have no other place for: net/http,
// say, for bytes that a backend sent unasked.
func (l *Logs) TakeStandard() (giveBack func()) {
	w, flags, prefix := log.Writer(), log.Flags(), log.Prefix()
	log.SetFlags(0)
	log.SetPrefix("")
	log.SetOutput(library{l})
	return func() {
		log.SetOutput(w)
		log.SetFlags(flags)
		log.SetPrefix(prefix)
	}
}

// library takes the lines of the standard logger.
type library struct{ logs *Logs }

// Write takes one line. A peer may be its cause, so there is a bound.
func (w library) Write(p []byte) (int, error) {
	if w.logs.library.allow("library") {
		w.logs.zap.Warn("library", zap.String(Reason, strings.TrimSpace(string(p))))
	}
	return len(p), nil
}
