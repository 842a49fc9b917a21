//go:build !linux

package l4_test

func childProcess() func() { return nil }
