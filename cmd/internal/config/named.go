package config

import (
	"fmt"
	"slices"
)

// Files returns the other files that c is made from, as it names them, each once
// and in order: tokens, passwords, certificates and their keys.
func (c *Config) Files() []string {
	files := []string{c.Admin.TokenFile}
	for _, p := range c.Pools {
		files = append(files, p.Probe.PasswordFile, p.Probe.TLS.CAFile, p.Probe.TLS.CertFile, p.Probe.TLS.KeyFile)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return file == "" })
	slices.Sort(files)
	return slices.Compact(files)
}

// NamedFiles returns the Files of the configuration at path, also if there is
// something wrong with them; false if it is with the configuration itself.
func NamedFiles(path string) ([]string, bool) {
	text, _, err := readFile(path, maxSize)
	if err != nil {
		return nil, false
	}
	c, err := Sketch(path, text, nil)
	if err != nil {
		return nil, false
	}
	return c.Files(), true
}

// LoadAdmin reads [admin] of the configuration at path, without its tokens. It opens
// no file that is named there: who asks a balancer that runs need not be allowed to
// read its passwords and keys.
func LoadAdmin(path string) (Admin, error) {
	text, _, err := readFile(path, maxSize)
	if err != nil {
		return Admin{}, fmt.Errorf("configuration: %w", err)
	}
	c, err := Sketch(path, text, nil)
	if err != nil {
		return Admin{}, err
	}
	return c.Admin, nil
}

// mayOpen reports whether a file that is named may be opened; "" is none.
func (in *input) mayOpen(file string) bool {
	return !in.sketch || file == "" || in.inForce != nil && slices.Contains(in.inForce.Files(), file)
}

// mayAsk reports whether the value of a variable may be looked at.
func (in *input) mayAsk(variable string) bool {
	return !in.sketch || in.inForce != nil &&
		slices.ContainsFunc(in.inForce.Pools, func(p Pool) bool { return p.Probe.PasswordEnv == variable })
}
