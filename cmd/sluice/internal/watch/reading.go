package watch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Reading is the content of the files at one moment, as hashes: two are equal if
// the contents are. The zero value is like none that was read.
type Reading struct {
	File    [sha256.Size]byte // the configuration
	Named   [sha256.Size]byte // the files that it names
	Missing string            // why there is no content; empty: there is some
}

// Read reads the configuration at path and the files that it names. One of these
// that cannot be read is a content of its own: whether that is a mistake is for
// others to say.
func Read(path string, named []string) Reading {
	var r Reading
	blank, err := hash(&r.File, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Missing = "is gone"
	case err != nil:
		r.Missing = "cannot be read: " + err.Error()
	case blank:
		r.Missing = "is empty"
	}
	all := sha256.New()
	for _, file := range named {
		var sum [sha256.Size]byte
		if _, err := hash(&sum, file); err != nil {
			sum = sha256.Sum256([]byte("error: " + err.Error()))
		}
		all.Write(sum[:])
	}
	all.Sum(r.Named[:0])
	return r
}

// hash hashes a regular file, and reports whether it is blank. It opens without
// waiting: a pipe that nobody writes to would hang.
func hash(sum *[sha256.Size]byte, path string) (blank bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		return false, err
	}
	h, part := sha256.New(), make([]byte, 32<<10)
	blank = true
	for {
		n, err := f.Read(part)
		h.Write(part[:n])
		blank = blank && len(bytes.TrimSpace(part[:n])) == 0
		if err == io.EOF {
			h.Sum(sum[:0])
			return blank, nil
		}
		if err != nil {
			return false, err
		}
	}
}
