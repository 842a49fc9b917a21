//go:build !unix

package l4test

import "testing"

// Refuse skips the test: it takes a socket that is bound and not listened on.
func Refuse(t testing.TB) string { return skip(t) }

// Hole skips the test: it takes a queue that stays full.
func Hole(t testing.TB) string { return skip(t) }

// HoleUnix skips the test, as Hole does.
func HoleUnix(t testing.TB, path string) string { return skip(t) }

func skip(t testing.TB) string {
	t.Skip("this takes sockets of Unix")
	return ""
}
