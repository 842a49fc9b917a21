package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
)

// input is a file that is being read and what was found in it so far.
type input struct {
	file     string
	lines    lines
	mistakes []note
	warnings []note

	sketch  bool    // see Sketch
	inForce *Config // names the files and variables that may be read then; nil: none
}

// note is one finding. A line below 1 stands for the whole file.
type note struct {
	line int
	text string
}

func (in *input) add(line int, text string) { in.mistakes = append(in.mistakes, note{line, text}) }

// err returns every mistake, one error each, in the order of the file.
func (in *input) err() error {
	var all *multierror.Error
	for _, text := range in.sorted(in.mistakes) {
		all = multierror.Append(all, errors.New(text))
	}
	if all != nil {
		all.ErrorFormat = onePerLine
	}
	return all.ErrorOrNil()
}

// warned returns every warning in the order of the file.
func (in *input) warned() []string { return in.sorted(in.warnings) }

func (in *input) sorted(notes []note) []string {
	slices.SortStableFunc(notes, func(a, b note) int { return a.line - b.line })
	var texts []string
	for _, n := range notes {
		// One finding is one line, whatever a key or a library had in it.
		text := strings.ReplaceAll(n.text, "\n", `\n`)
		texts = append(texts, fmt.Sprintf("%s:%d: %s", in.file, max(n.line, 1), text))
	}
	return texts
}

func onePerLine(errs []error) string {
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n")
}
