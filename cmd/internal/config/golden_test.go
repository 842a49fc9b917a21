package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each testdata/NAME.toml has NAME.txt beside it: the whole error, or the
// warnings of a file that is valid.
func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			want, err := os.ReadFile(strings.TrimSuffix(file, ".toml") + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			if got := findings(t, file); got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// findings parses a file under its base name and returns what was found.
func findings(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(filepath.Base(file), text)
	if err != nil {
		return err.Error() + "\n"
	}
	return strings.Join(c.Warnings, "\n") + "\n"
}
