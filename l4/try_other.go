//go:build !unix

package l4

func bindOnly(uintptr, string, string) error { return ErrUntried }
