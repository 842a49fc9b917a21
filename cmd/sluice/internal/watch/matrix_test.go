package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// save is a way to give a file new content.
type save struct {
	name  string
	setup func(t *testing.T, dir string) (path string)
	again func(t *testing.T, path string, i int, text string)
}

// plain puts the file into dir.
func plain(t *testing.T, dir string) string {
	path := filepath.Join(dir, "c.toml")
	write(t, path, good+"0\n")
	return path
}

// configMap puts the file where Kubernetes does: path -> ..data/c.toml, and
// ..data -> a directory of its own for each version.
func configMap(t *testing.T, dir string) string {
	version(t, dir, 0, good+"0\n")
	must(t, os.Symlink("..v0", filepath.Join(dir, "..data")))
	path := filepath.Join(dir, "c.toml")
	must(t, os.Symlink(filepath.Join("..data", "c.toml"), path))
	return path
}

func version(t *testing.T, dir string, i int, text string) (name string) {
	name = fmt.Sprintf("..v%d", i)
	must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	write(t, filepath.Join(dir, name, "c.toml"), text)
	return name
}

// pause is what a program takes between two steps of one save: half of B111's
// would be enough, and much longer than a settled file would wait.
const pause = 50 * time.Millisecond

var saves = []save{
	{"in place", plain, func(t *testing.T, path string, _ int, text string) { write(t, path, text) }},
	{"rename over it", plain, func(t *testing.T, path string, _ int, text string) {
		write(t, path+".new", text)
		must(t, os.Rename(path+".new", path))
	}},
	{"backup, then create", plain, func(t *testing.T, path string, _ int, text string) {
		must(t, os.Rename(path, path+"~"))
		write(t, path, text)
	}},
	{"delete, then create", plain, func(t *testing.T, path string, _ int, text string) {
		must(t, os.Remove(path))
		time.Sleep(200 * time.Millisecond)
		write(t, path, text)
	}},
	{"half written", plain, func(t *testing.T, path string, _ int, text string) {
		write(t, path, "")
		time.Sleep(pause)
		write(t, path, text[:len(text)/2])
		time.Sleep(pause)
		write(t, path, text)
	}},
	{"swap of a link on the way", configMap, func(t *testing.T, path string, i int, text string) {
		dir := filepath.Dir(path)
		next := filepath.Join(dir, "..data_tmp")
		must(t, os.Symlink(version(t, dir, i, text), next))
		must(t, os.Rename(next, filepath.Join(dir, "..data")))
		must(t, os.RemoveAll(filepath.Join(dir, fmt.Sprintf("..v%d", i-1))))
	}},
	{"swap of the link itself", func(t *testing.T, dir string) string {
		write(t, filepath.Join(dir, "c0"), good+"0\n")
		path := filepath.Join(dir, "c.toml")
		must(t, os.Symlink("c0", path))
		return path
	}, func(t *testing.T, path string, i int, text string) {
		target := filepath.Join(filepath.Dir(path), fmt.Sprintf("c%d", i))
		write(t, target, text)
		must(t, os.Symlink(target, path+".new"))
		must(t, os.Rename(path+".new", path))
	}},
	{"write behind a link to another directory", func(t *testing.T, dir string) string {
		must(t, os.Mkdir(filepath.Join(dir, "far"), 0o700))
		write(t, filepath.Join(dir, "far", "c0"), good+"0\n")
		path := filepath.Join(dir, "c.toml")
		must(t, os.Symlink(filepath.Join("far", "..", "far", "c0"), path))
		return path
	}, func(t *testing.T, path string, _ int, text string) {
		target := filepath.Join(filepath.Dir(path), "far", "c0")
		write(t, target+".new", text)
		must(t, os.Rename(target+".new", target))
	}},
	{"replace of its directory", func(t *testing.T, dir string) string {
		must(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
		return plain(t, filepath.Join(dir, "d"))
	}, func(t *testing.T, path string, i int, text string) {
		d := filepath.Dir(path)
		must(t, os.Mkdir(d+".new", 0o700))
		write(t, filepath.Join(d+".new", "c.toml"), text)
		must(t, os.Rename(d, fmt.Sprint(d, ".", i)))
		must(t, os.Rename(d+".new", d))
	}},
}

// B111, B112: each way to save, three times in a row, is three reloads.
func TestEveryWayToSave(t *testing.T) {
	t.Parallel()
	for _, s := range saves {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			path := s.setup(t, t.TempDir())
			r := watchFile(t, path, nil, openNotify)
			for i := 1; i <= 3; i++ {
				s.again(t, path, i, fmt.Sprintf("%s%d is rather longer\n", good, i))
				r.awaitApplied(i)
			}
			must(t, os.Chmod(path, 0o640))
			write(t, filepath.Join(filepath.Dir(path), "other"), "x")
			time.Sleep(2 * settleTime) // only a reload too many could come in it
			r.awaitApplied(3)
		})
	}
}

// Each of these saves is noticed by its events, long before a poll.
func TestEventsComeBeforeThePoll(t *testing.T) {
	t.Parallel()
	for _, s := range saves[:len(saves)-1] { // the last is the poll's
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			path := s.setup(t, t.TempDir())
			var all events
			all.open = openNotify
			must(t, all.follow([]string{path}))
			defer all.close()
			for i := 1; i <= 3; i++ {
				s.again(t, path, i, fmt.Sprintf("%s%d\n", good, i))
				deadline := time.After(20 * time.Second)
				for heard := false; !heard; {
					select {
					case e := <-all.some():
						heard = all.concern(e)
					case <-deadline:
						t.Fatalf("save %d: no event", i)
					}
				}
				must(t, all.follow([]string{path}))
				for quiet := false; !quiet; { // the next save's events are new ones
					select {
					case <-all.some():
					case <-time.After(pause):
						quiet = true
					}
				}
			}
		})
	}
}
