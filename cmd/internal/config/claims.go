package config

import (
	"fmt"
	"slices"
	"strings"
)

// claim is something that may be claimed once: a name, an id, an address.
type claim struct {
	table table
	text  string
	at    endpoint // of addresses
	owner string   // of what is listened on
}

// claims are those of one kind, in the order they were read. The zero value is
// ready. The maps hold the first claim of each; a pool may be large.
type claims struct {
	all    []claim
	byText map[string]claim
	byAt   map[endpoint]claim
}

func (c *claims) add(n claim) {
	if c.all == nil {
		c.byText, c.byAt = map[string]claim{}, map[endpoint]claim{}
	}
	c.all = append(c.all, n)
	if _, ok := c.byText[n.text]; !ok {
		c.byText[n.text] = n
	}
	if _, ok := c.byAt[n.at]; !ok {
		c.byAt[n.at] = n
	}
}

// name claims the name of a frontend or a pool.
func (c *claims) name(t table, name string) {
	if name == "" {
		return
	}
	if o, ok := c.byText[name]; ok {
		t.wrong("name", "%s is the name of another %s already (line %d)", quote(name), t.keys.name, o.table.line("name"))
	}
	c.add(claim{table: t, text: name})
}

// id claims the id of a backend. Two that are the addresses they stand for are
// left to claims.backend.
func (c *claims) id(t table, id string) {
	if id == "" {
		return
	}
	if o, ok := c.byText[id]; ok && (t.has("id") || o.table.has("id")) {
		t.wrong("id", "%s is the id of another backend of this pool already (line %d)", quote(id), o.table.line("id"))
	}
	c.add(claim{table: t, text: id})
}

// backend claims the address of a backend.
func (c *claims) backend(t table, text string, at endpoint) {
	if o, ok := c.byAt[at]; ok {
		t.wrong("address", "%s is the address of another backend of this pool already (line %d)",
			quote(text), o.table.line("address"))
	}
	c.add(claim{table: t, text: text, at: at})
}

// listen claims an address to listen on; nil is none.
func (c *claims) listen(t table, key, owner, text string, at *endpoint) {
	if at == nil {
		return
	}
	for _, o := range c.all {
		if at.overlaps(o.at) {
			t.wrong(key, "%s cannot be bound beside %s of %s (%s)", quote(text), quote(o.text), o.owner, o.source())
			break
		}
	}
	c.add(claim{table: t, text: text, at: *at, owner: owner})
}

// source says where a listen address comes from.
func (c claim) source() string {
	if !c.table.has("listen") {
		return "the default"
	}
	return fmt.Sprintf("line %d", c.table.line("listen"))
}

// refer checks that the pool that t names exists.
func (c *claims) refer(t table, name string) {
	if _, ok := c.byText[name]; ok || name == "" {
		return
	}
	var names []string // each once, though a file may give two pools the same
	for _, o := range c.all {
		if !slices.Contains(names, o.text) {
			names = append(names, o.text)
		}
	}
	const most = 10 // in a message
	switch n := nearest(name, names); {
	case n != "":
		t.wrong("pool", "no pool is named %s; did you mean %s?", quote(name), quote(n))
	case len(names) == 0 || len(names) > most:
		t.wrong("pool", "no pool is named %s; write a [[pool]] of that name", quote(name))
	default:
		t.wrong("pool", "no pool is named %s; there is %s", quote(name), strings.Join(quoted(names), ", "))
	}
}

// adviseUnused warns of pools that nothing leads to.
func (c *claims) adviseUnused(used map[string]bool) {
	for _, o := range c.all {
		if !used[o.text] {
			o.table.warn("", "no frontend uses it")
		}
	}
}
