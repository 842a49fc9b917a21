package admin

import (
	"log"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// complaintLines bounds the lines a second of each level: peers can cause as
// many as they like. Chosen.
const complaintLines = 5

// complaints is where net/http writes its lines. What it says of clients and of
// broken connections is of no interest unless somebody looks for it; a panic is
// an error of ours.
type complaints struct{ log *zap.Logger }

func newComplaints(l *zap.Logger) *log.Logger {
	bounded := zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, complaintLines, 0)
	})
	return log.New(complaints{l.WithOptions(bounded, zap.AddStacktrace(zap.FatalLevel))}, "", 0)
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
