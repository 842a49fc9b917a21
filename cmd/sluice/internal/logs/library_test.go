package logs

import (
	"log"
	"strings"
	"testing"

	"sluice/cmd/internal/config"
)

// What libraries write is one line each, at most a few, and the rest is counted.
func TestTakeStandard(t *testing.T) {
	text := wrote(t, config.Log{Level: "info", Format: "json", Access: "all"}, func(l *Logs) {
		giveBack := l.TakeStandard()
		for range 1000 {
			log.Print("Unsolicited response\nreceived")
		}
		giveBack()
	})
	if !strings.Contains(text, `"level":"warn"`) || !strings.Contains(text, `"msg":"library","reason":"Unsolicited response\nreceived"`) {
		t.Errorf("got %s, want the text on one line", text)
	}
	if n := strings.Count(text, "\n"); n > 4 { // 1000 lines may meet the end of a second
		t.Errorf("got %d lines, want one or two and a count:\n%s", n, text)
	}
	if !strings.Contains(text, `"msg":"more lines of libraries"`) || log.Flags() != log.LstdFlags {
		t.Errorf("got %s and flags %d, want a count, and the logger given back", text, log.Flags())
	}
}
