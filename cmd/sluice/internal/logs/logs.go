// Package logs writes the log of the process: one line an event, on one writer,
// as text or as JSON.
//
// It owns the names of the fields, the session line, and two bounds: a log that
// stalls costs lines and never traffic, and a storm of failures is a few lines
// a second of each kind and a count. It decides nothing: others tell it what happened.
//
//	event -> zap -> sink (bounded memory) -> one goroutine -> writer
//
// Level, format and the choice of session lines change while it runs. All of it
// is safe for concurrent use, and no call blocks but Close.
package logs

import (
	"io"
	"sync/atomic"
	"time"

	"sluice/cmd/internal/config"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Lines a second before the rest is only counted: of failures for each frontend
// and cause (of look-ups, for each host), and of libraries in all. Chosen: enough
// to see a pattern, and few enough to read.
const (
	failureLines = 5
	libraryLines = 1
)

// Logs is the log of the process.
type Logs struct {
	zap   *zap.Logger
	sink  *sink
	level zap.AtomicLevel
	json  atomic.Bool
	pick  atomic.Pointer[config.Log] // which session lines are wanted

	sessions burst // clients that got no backend
	rejected burst
	faults   burst // accept loops and look-ups
	library  burst // what libraries have to say
}

// New returns a log on w, at level info, as text, with all session lines.
func New(w io.Writer) *Logs {
	l := &Logs{level: zap.NewAtomicLevel()}
	l.pick.Store(&config.Log{Access: "all", LogEmpty: true})
	direct := l.logger(zapcore.AddSync(w))
	l.sink = newSink(w, sinkSize, func(n int64) {
		direct.Warn("log lines dropped: the log did not take them in time", zap.Int64(Count, n))
	})
	l.zap = l.logger(l.sink)
	l.sessions = burst{lines: failureLines, more: l.more("more clients got no backend")}
	l.rejected = burst{lines: failureLines, more: l.more("more clients refused")}
	l.faults = burst{lines: failureLines, more: l.more("more errors like these")}
	l.library = burst{lines: libraryLines, more: l.more("more lines of libraries")}
	return l
}

// logger returns a logger on w that follows the settings.
func (l *Logs) logger(w zapcore.WriteSyncer) *zap.Logger {
	return zap.New(zapcore.NewTee(
		l.core(w, zapcore.NewConsoleEncoder, false),
		l.core(w, zapcore.NewJSONEncoder, true),
	))
}

// core returns one of the two formats; it is enabled while that format is the
// one in use.
func (l *Logs) core(w zapcore.WriteSyncer, encoder func(zapcore.EncoderConfig) zapcore.Encoder, json bool) zapcore.Core {
	enabled := zap.LevelEnablerFunc(func(at zapcore.Level) bool {
		return l.json.Load() == json && l.level.Enabled(at)
	})
	return zapcore.NewCore(encoder(zapcore.EncoderConfig{
		TimeKey:        "time",
		LevelKey:       "level",
		NameKey:        "logger",
		MessageKey:     "msg",
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeLevel:    zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	}), w, enabled)
}

// Use makes c current for the lines written from now on.
func (l *Logs) Use(c config.Log) {
	if level, err := zapcore.ParseLevel(c.Level); err == nil {
		l.level.SetLevel(level)
	}
	l.json.Store(c.Format == "json")
	l.pick.Store(&c)
}

// Zap returns the logger for everything that has no method of its own.
func (l *Logs) Zap() *zap.Logger { return l.zap }

// Dropped returns how many lines found no room since the start.
func (l *Logs) Dropped() int64 { return l.sink.droppedTotal() }

// Close writes the counts that are still held back and what is in memory, for
// at most timeout. Lines that come later are dropped.
func (l *Logs) Close(timeout time.Duration) {
	l.sessions.flush()
	l.rejected.flush()
	l.faults.flush()
	l.library.flush()
	l.sink.close(timeout)
}

// more returns the func that writes the count of lines held back.
func (l *Logs) more(message string) func(int64, map[string]int64) {
	return func(count int64, by map[string]int64) {
		l.zap.Info(message, zap.Int64(Count, count), zap.Any(Kinds, by))
	}
}
