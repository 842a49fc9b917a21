package l4

import "errors"

// fastest is the engine that "auto" stands for.
const fastest = "copy"

func newLooping(int) (driver, error) {
	return nil, errors.New("it is not built yet; write auto or copy")
}
