//go:build !linux

package l4

import "errors"

// fastest is the engine that "auto" stands for.
const fastest = "copy"

func newLooping(int) (driver, error) {
	return nil, errors.New("it needs Linux; write auto or copy")
}
