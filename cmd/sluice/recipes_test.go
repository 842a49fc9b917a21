//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/cmd/internal/config"
)

const recipes = "../../scripts/recipes"

// Each recipe is a file that Sluice takes, with a text about it, and in the list.
func TestRecipesAreComplete(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(recipes, "*.toml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d recipes, %v", len(files), err)
	}
	list, err := os.ReadFile(filepath.Join(recipes, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Sketch(filepath.Base(file), text, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range c.Warnings {
			if !strings.Contains(w, "not read for a plan") {
				t.Errorf("got the warning %s", w)
			}
		}
		if about := strings.TrimSuffix(file, ".toml") + ".md"; !exists(about) {
			t.Errorf("there is no %s", about)
		}
		if !strings.Contains(string(list), filepath.Base(file)) {
			t.Errorf("%s is not in the list", file)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// startRecipe starts the program with a recipe as it is, but for what a test
// cannot have: its addresses and files, each replaced as in pairs of the text and
// what stands for it. Every first must be there.
func startRecipe(t *testing.T, name string, pairs ...string) *daemon {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(recipes, name+".toml"))
	if err != nil {
		t.Fatal(err)
	}
	pairs = append(pairs, "127.0.0.1:8404", free)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s has no %q", name, pairs[i])
		}
	}
	return startDaemon(t, "[log]\nformat = \"json\"\n"+strings.NewReplacer(pairs...).Replace(string(text)))
}
