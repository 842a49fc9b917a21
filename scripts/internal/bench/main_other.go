//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "the benchmark needs Linux: it reads /proc and uses epoll")
	os.Exit(1)
}
