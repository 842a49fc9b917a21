package admin

import (
	"log"
	"strings"

	"go.uber.org/zap"
)

// complaints is where net/http writes its lines. What it says of clients and of
// broken connections is of no interest unless somebody looks for it; a panic is
// an error of ours.
type complaints struct{ log *zap.Logger }

func newComplaints(l *zap.Logger) *log.Logger {
	return log.New(complaints{l.WithOptions(zap.AddStacktrace(zap.FatalLevel))}, "", 0)
}

// Write takes one line.
func (c complaints) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "panic serving") {
		c.log.Error("admin side", zap.String("error", text))
	} else {
		c.log.Debug("admin side", zap.String("error", text))
	}
	return len(p), nil
}
