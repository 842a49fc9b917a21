package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// maxSize bounds what is read. Chosen: 10,000 backends in each of 20 pools.
const maxSize = 64 << 20

// broken is the error of a file that began as a state file and is none.
type broken struct{ error }

// foreign is the error of a file that belongs to another configuration.
type foreign struct{ path, config string }

func (f foreign) Error() string {
	return fmt.Sprintf("%s belongs to the configuration %s and is left alone; set state_file in [process] to a place of its own", f.path, f.config)
}

// owned reads the state file at path, which must be this configuration's.
func (k *Keeper) owned(path string) ([]byte, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	config, err := owner(path, text)
	if config != "" && config != k.options.Config {
		err = foreign{path, config}
	}
	return text, err
}

// read reads a regular file: what else is there, such as a device, is not to be
// replaced by a file.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxSize>>20)
	}
	return text, err
}

// put replaces the file at path by text, or removes it if text is nil. On an
// error the file is as before.
func (k *Keeper) put(path string, text []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	_, err := k.owned(path)
	if errors.As(err, new(broken)) {
		var moved bool
		if moved, err = setAside(path, err); moved {
			k.warn("state file not used", err)
			err = fs.ErrNotExist
		}
	}
	absent := errors.Is(err, fs.ErrNotExist)
	switch {
	case text == nil && (absent || errors.As(err, new(foreign))):
		return nil
	case err != nil && !absent:
		return err
	case text == nil:
		if err := os.Remove(path); err != nil {
			return err
		}
	default:
		if err := k.write(path, text, absent); err != nil {
			return err
		}
	}
	return syncDirectory(filepath.Dir(path))
}

// write writes text beside path and moves it there.
func (k *Keeper) write(path string, text []byte, absent bool) (err error) {
	beside := path + ".new"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(beside)
		}
	}()
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if absent {
		return k.claim(beside, path)
	}
	return os.Rename(beside, path)
}

// claim moves a file to where none was: of two processes with one place, one
// gets it.
func (k *Keeper) claim(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case !errors.Is(err, fs.ErrExist):
		return os.Rename(from, to) // this file system has no links
	}
	if _, whose := k.owned(to); whose != nil {
		return whose
	}
	return err
}

// syncDirectory makes a rename or a removal in it last.
func syncDirectory(path string) error {
	if runtime.GOOS == "windows" {
		return nil // has no such call
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // neither has this file system
	}
	return err
}

// setAside renames a broken file, and returns why with its new name. It leaves
// alone what never was a state file, which a slip in the path may have hit.
func setAside(path string, why error) (moved bool, err error) {
	text, err := read(path)
	if err != nil {
		return false, err
	}
	if rest := bytes.TrimLeft(text, " \t\r\n\x00"); len(rest) > 0 && rest[0] != '{' {
		return false, fmt.Errorf("%s is no state file and is left alone; set state_file in [process] to another place", path)
	}
	to, err := freeName(path + ".bad")
	if err == nil {
		err = os.Rename(path, to)
	}
	if err != nil {
		return false, fmt.Errorf("%w; it cannot be set aside: %w", why, err)
	}
	return true, fmt.Errorf("%w; it is %s now", why, to)
}

// freeName returns the first of name, name.2, name.3 that nothing has.
func freeName(name string) (string, error) {
	const most = 100 // before somebody has to look
	for i, try := 1, name; i <= most; i++ {
		if _, err := os.Lstat(try); errors.Is(err, fs.ErrNotExist) {
			return try, nil
		}
		try = fmt.Sprintf("%s.%d", name, i+1)
	}
	return "", fmt.Errorf("there are %d files %s already", most, name)
}
