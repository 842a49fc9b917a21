package config

import (
	"strings"
	"testing"
)

// document is a small valid file whose keys a test can set one by one.
type document map[string][]string // header: lines

func newDocument() document {
	return document{
		"[[frontend]]":     {`name = "f"`, `listen = "127.0.0.1:0"`, `pool = "p"`},
		"[[pool]]":         {`name = "p"`},
		"[[pool.backend]]": {`address = "127.0.0.1:7001"`},
	}
}

// set gives a key of a table a value, in TOML. An old value is replaced.
func (d document) set(header, key, value string) document {
	line := key + " = " + value
	if header == keepaliveKeys.header {
		header, line = "[[frontend]]", "keepalive = { "+line+" }"
	}
	for i, old := range d[header] {
		if strings.HasPrefix(old, key+" = ") {
			d[header][i] = line
			return d
		}
	}
	d[header] = append(d[header], line)
	return d
}

func (d document) String() string {
	var text strings.Builder
	for _, k := range everyKeys {
		lines := d[k.header]
		if k != rootKeys && lines != nil {
			text.WriteString(k.header + "\n")
		}
		for _, line := range lines {
			text.WriteString(line + "\n")
		}
	}
	return text.String()
}

// parsed returns the Config of d in a form that compares.
func (d document) parsed(t *testing.T) *Config {
	t.Helper()
	c, err := Parse("test.toml", []byte(d.String()))
	if err != nil {
		t.Fatalf("got %v, want none in\n%s", err, d)
	}
	return withoutFuncs(c)
}

// refused returns the mistakes in d.
func (d document) refused(t *testing.T) string {
	t.Helper()
	c, err := Parse("test.toml", []byte(d.String()))
	if err == nil {
		t.Fatalf("got %+v, want an error for\n%s", c, d)
	}
	return err.Error()
}

// withoutFuncs drops what does not compare, and what is advice alone.
func withoutFuncs(c *Config) *Config {
	c.Warnings = nil
	for i := range c.Pools {
		c.Pools[i].Config.Strategy.Build = nil
	}
	return c
}
