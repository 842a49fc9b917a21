package config

import (
	"strconv"
	"strings"
)

// nearest returns the word of among that a typo most likely meant, or "".
func nearest(word string, among []string) string {
	best, least := "", 0
	for _, w := range among {
		if d, ok := near(word, w); ok && (best == "" || d < least) {
			best, least = w, d
		}
	}
	return best
}

// near reports how far word is from want, and whether that is near enough to be
// a typo: one edit in a word of up to four letters, and one more for every five
// letters of a longer one. Case, '-' and '_' count for nothing, and so does a
// missing or an added end ("leastconn", "warning").
func near(word, want string) (distance int, ok bool) {
	if len(word) > 64 {
		return 0, false
	}
	word, want = folded.Replace(strings.ToLower(word)), folded.Replace(strings.ToLower(want))
	limit := 1 + len(want)/5
	distance = edits(word, want)
	shorter := min(len(word), len(want))
	if shorter >= 3 && word[:shorter] == want[:shorter] {
		return min(distance, limit), true
	}
	return distance, distance <= limit && distance < len(want)
}

var folded = strings.NewReplacer("-", "", "_", "")

// edits counts the insertions, deletions, changes and swaps of neighbours that
// make b out of a.
func edits(a, b string) int {
	var before []int // the row before the last, for swaps
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// quote shows what somebody wrote, on one line and not too much of it.
func quote(s string) string {
	const most = 100
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = quote(w)
	}
	return all
}

// anyOf joins words as in "a, b or c".
func anyOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	end := len(words) - 1
	return strings.Join(words[:end], ", ") + " or " + words[end]
}
