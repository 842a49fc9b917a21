package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// planted is a repository in which every rule is broken, beside what the rules
// allow. The path in it is in two parts: this file has to pass as well.
const planted = `
-- .gitignore --
/sluice
*.prof
-- sluice --
-- cpu.prof --
-- Makefile --
-- README.md --
Built in /wo` + `rk/sluice. To serve: sluice run.
-- tools/tools.go --
// Package tools has no place.
package tools
-- pool/pool.go --
package pool
import _ "sluice/l4"
func Pick() {}
func Once() {}
type T[X any] int
func (*T[X]) Do() {}
type hidden int
func (hidden) Do() {}
-- pool/pool_linux.go --
package pool
// Once has its doc here.
func Once() {}
-- pool/pool_test.go --
package pool
import (
	_ "go.uber.org/goleak"
	_ "sluice/admin"
	_ "sluice/pool/balance"
)
-- pool/balance/balance.go --
// Package balance picks.
package balance
import (
	_ "sluice/pool"
	_ "sluice/pool/health"
)
-- l4/l4.go --
// Package l4 moves bytes.
package l4
import (
	_ "go.uber.org/zap"
	_ "golang.org/x/sys/unix"
	_ "net"
	_ "net/http/httputil"
	_ "sluice/l4/l4test"
	_ "sluice/l4/session"
)
func file(c conn) { c.File(); c.File(1) }
-- l4/l4_test.go --
package l4
import (
	_ "net/http"
	_ "sluice/l4/l4test"
)
-- cmd/cmd.go --
// Package cmd is of the binary.
package cmd
import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/zap"
)
// Both are documented.
const (
	A = 1
	B = 2
)
// Kind is an enumeration.
type Kind int
const (
	C Kind = iota
	D
)
var E, f = 1, 2
`

// The checks have to be able to fail.
func TestArchitectureFindsPlantedFaults(t *testing.T) {
	root := fstest.MapFS{}
	for _, part := range strings.Split(planted, "\n-- ")[1:] {
		name, text, _ := strings.Cut(part+"\n", " --\n")
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	all, err := sources(root)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Concat(checkImports(all), checkDocs(all), checkDescriptors(all), checkPaths(root),
		checkTop(root), checkCommands(root, []string{"sluice run", "sluice demo"}))
	want := []string{
		"cmd/cmd.go:4 imports github.com/BurntSushi/toml: ",
		"cmd/cmd.go:5 imports github.com/spf13/cobra: ",
		"l4/l4.go:4 imports go.uber.org/zap: ",
		"l4/l4.go:7 imports net/http/httputil: ",
		"l4/l4.go:8 imports sluice/l4/l4test: ",
		"pool/balance/balance.go:5 imports sluice/pool/health: ",
		"pool/pool.go:2 imports sluice/l4: ",
		"pool/pool_test.go:4 imports sluice/admin: ",
		"tools/tools.go: no layer holds package tools",
		"cmd/cmd.go:19: E has no doc",
		"package pool has no doc",
		"pool/pool.go:3: Pick has no doc",
		"pool/pool.go:5: T has no doc",
		"pool/pool.go:6: T.Do has no doc",
		"l4/l4.go:11: use SyscallConn",
		"README.md names a path",
		"the root has no place for Makefile",
		"the root has no place for tools",
		"the root lacks LICENSE",
		"the root lacks admin",
		"the root lacks config.toml",
		"the root lacks go.mod",
		"the root lacks go.sum",
		"the root lacks scripts",
		`README.md does not mention "sluice demo"`,
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got %s\nwant each to begin with %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
