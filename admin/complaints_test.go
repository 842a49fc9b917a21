package admin

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Whatever peers make net/http say is one line each, and a few lines a second;
// they do not crowd out a panic of ours.
func TestComplaintsAreBounded(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	complain := newComplaints(bounded(zap.New(core)))
	for range 1000 {
		complain.Print("http: URL query contains semicolon")
	}
	complain.Print("http: panic serving 127.0.0.1:1: no\ngoroutine 1 [running]:\n")
	// A second may have passed in between.
	if n := logs.FilterLevelExact(zapcore.DebugLevel).Len(); n < 1 || n > 2*peerLines {
		t.Errorf("got %d lines of peers; want 1 to %d", n, 2*peerLines)
	}
	panics := logs.FilterLevelExact(zapcore.ErrorLevel).All()
	if len(panics) != 1 || panics[0].Message != "admin side" || !strings.Contains(panics[0].ContextMap()["error"].(string), "goroutine 1") {
		t.Errorf("got %+v; want the panic with its stack", panics)
	}
}
