//go:build !unix

package l4

func DescriptorLimit() (int, bool) { return 0, false }
