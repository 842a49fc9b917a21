//go:build !unix

package l4

func descriptorLimit() (int, bool) { return 0, false }
