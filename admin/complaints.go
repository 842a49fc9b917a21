package admin

import (
	"log"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// peerLines bounds the lines a second, of each kind, about what peers can cause
// as often as they like. Chosen.
const peerLines = 5

// bounded returns l with that bound; a kind is a level and a message.
func bounded(l *zap.Logger) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, peerLines, 0)
	}))
}

// complaints is where net/http and the library of the metrics write their lines.
// What they say of clients and of broken connections is of no interest unless
// somebody looks for it; a panic is an error of ours, and so are metrics that do
// not go together.
type complaints struct{ log *zap.Logger }

// newComplaints returns the logger for net/http that writes to l.
func newComplaints(l *zap.Logger) *log.Logger {
	return log.New(complaints{l.WithOptions(zap.AddStacktrace(zap.FatalLevel))}, "", 0)
}

// Write takes one line.
func (c complaints) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "panic serving") || strings.Contains(text, "error gathering metrics") {
		c.log.Error("admin side", zap.String("error", text))
	} else {
		c.log.Debug("admin side", zap.String("error", text))
	}
	return len(p), nil
}
