package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linksMax is how many symbolic links may lead to a file: as many as Linux
// follows.
const linksMax = 40

// trail is everything that leads to some files: where a change can put another
// content there. The zero value is empty.
type trail struct {
	watched map[string]bool // directories, free of links, and the files themselves
	names   map[string]bool // entries of those directories that matter
}

// trace adds what leads to the file at an absolute path: every link on the way,
// also one of a directory, which is how Kubernetes swaps a ConfigMap; and the
// file itself, since a directory tells nothing of one that is mounted into it.
func (t *trail) trace(path string) {
	if t.watched == nil {
		t.watched, t.names = make(map[string]bool), make(map[string]bool)
	}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest, links := root, parts(path), 0
	for len(rest) > 0 {
		full := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(full)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			t.add(at, full)
			to, err := os.Readlink(full)
			if links++; err != nil || links > linksMax {
				return
			}
			if filepath.IsAbs(to) {
				at = root
			}
			rest = append(parts(to), rest...)
		case err == nil && len(rest) > 0:
			at = full
		default: // it is there, or may come
			t.add(at, full)
			if err == nil {
				t.watched[full] = true
			}
			return
		}
	}
}

func (t *trail) add(dir, full string) {
	t.watched[dir], t.names[dir], t.names[full] = true, true, true
}

// parts are the names in a path. Those that are ".." stay: after a link they do
// not lead back to where it is.
func parts(path string) (names []string) {
	for _, name := range strings.Split(path[len(filepath.VolumeName(path)):], string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
