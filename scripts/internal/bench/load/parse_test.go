//go:build linux

package load

import (
	"testing"
	"time"
)

func TestParseCommands(t *testing.T) {
	t.Parallel()
	const info = "# Stats\r\ntotal_connections_received:52\r\ntotal_commands_processed:1048577\r\ninstantaneous_ops_per_sec:0\r\n"
	if got, err := parseCommands(info); got != 1048577 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for _, info := range []string{"", "# Stats\r\ntotal_commands_processed:many\r\n"} {
		if got, err := parseCommands(info); err == nil {
			t.Errorf("%q: got %d", info, got)
		}
	}
}

func TestQueue(t *testing.T) {
	t.Parallel()
	var q queue
	var next, want time.Duration
	for _, step := range []int{3, -2, 4, -5, 1, -1, 100, -100} {
		for range step {
			q.push(next)
			next++
		}
		for range -step {
			if got := q.pop(); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
			want++
		}
		if q.len() != int(next-want) {
			t.Fatalf("got length %d, want %d", q.len(), next-want)
		}
	}
}

func TestParseStubStatus(t *testing.T) {
	t.Parallel()
	const answer = "HTTP/1.1 200 OK\r\n\r\nActive connections: 2 \nserver accepts handled requests\n 31 30 1234567 \nReading: 0 Writing: 1 Waiting: 1 \n"
	if got, err := parseStubStatus(answer); got != 1234567 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	if got, err := parseStubStatus("HTTP/1.1 404 Not Found\r\n\r\n"); err == nil {
		t.Errorf("got %d of a page that is not there", got)
	}
}
