package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "sluice"

// layer is what the packages at and below a directory may import, beside the
// standard library. The entry of the longest matching directory holds.
type layer struct {
	own    []string // packages of this module; "/..." takes in those below
	others []string // packages of other modules, those below taken in
	http   bool     // net/http
	reason string
}

var layers = map[string]layer{
	"pool": {
		reason: "the pool decides where and knows nobody: it reports through funcs it is given",
	},
	"pool/balance": {
		own:    []string{"pool"},
		reason: "a strategy sees backends and nothing else",
	},
	"pool/outlier": {
		own:    []string{"pool"},
		reason: "who stands out is judged from the counts of a pool, and told to it",
	},
	"pool/health": {
		own:    []string{"pool"},
		http:   true,
		reason: "health is a verdict about a backend, over HTTP too; a probe that needs a library is passed in as a func",
	},
	"pool/health/redis": {
		own:    []string{"pool/health"},
		others: []string{"github.com/redis/go-redis"},
		reason: "a probe knows its protocol's library and nothing else",
	},
	"pool/health/mysql": {
		own:    []string{"pool/health"},
		others: []string{"github.com/go-sql-driver/mysql"},
		reason: "a probe knows its protocol's library and nothing else",
	},
	"pool/health/postgres": {
		own:    []string{"pool/health"},
		others: []string{"github.com/jackc/pgx"},
		reason: "a probe knows its protocol's library and nothing else",
	},
	"l4": {
		own:    []string{"l4/...", "pool"},
		others: []string{"golang.org/x/sys", "github.com/pires/go-proxyproto"},
		reason: "the data plane moves bytes: no HTTP, no TOML, no logger",
	},
	"admin": {
		own:    []string{"admin/...", "l4/...", "pool/..."},
		others: []string{"go.uber.org/zap", "github.com/prometheus/client_golang"},
		http:   true,
		reason: "admin shows and steers what it is given, and knows no file",
	},
	"cmd/internal/config": {
		own:    []string{"admin/...", "l4/...", "pool/..."},
		others: []string{"github.com/BurntSushi/toml", "github.com/hashicorp/go-multierror"},
		reason: "TOML stops here: a Config is what leaves, or every mistake",
	},
	"cmd": {
		own: []string{"cmd/...", "admin/...", "l4/...", "pool/..."},
		others: []string{
			"go.uber.org/zap", "github.com/spf13/cobra", "github.com/prometheus/client_golang",
			"github.com/fsnotify/fsnotify", "github.com/coreos/go-systemd",
		},
		http:   true,
		reason: "the binary wires all the others",
	},
	"cmd/sluice/internal/systemd": {
		others: []string{"github.com/coreos/go-systemd", "golang.org/x/sys", "go.uber.org/zap"},
		reason: "the service manager is told, and asked, about what others do",
	},
	"scripts": {
		own:    []string{"scripts/..."},
		others: []string{"golang.org/x/sys"},
		reason: "the benchmark sees the balancer as its users do: a program and its configuration",
	},
}

// only names packages that few may import, whatever their layer allows.
var only = map[string]struct {
	by     []string
	reason string
}{
	"sluice/l4/l4test": {reason: "it is made for tests"},
	"github.com/prometheus/client_golang/prometheus": {
		by:     []string{"admin/metrics"},
		reason: "whoever owns an event counts it; only the page of metrics knows whom it is for",
	},
	"github.com/spf13/cobra": {
		by:     []string{"cmd/sluice"},
		reason: "commands are the binary's",
	},
}

// forTests are libraries that every test may import.
var forTests = []string{
	"go.uber.org/goleak", "github.com/redis/go-redis", "github.com/jackc/pgx", "github.com/chromedp", "golang.org/x/net",
	"github.com/go-sql-driver/mysql",
}

// order is which way imports point; a test may go along it from its own layer,
// so that a pool is tested with a real strategy.
var order = []string{"cmd", "admin", "l4", "pool"}

// within says whether name is root or below it.
func within(name, root string) bool {
	return name == root || strings.HasPrefix(name, root+"/")
}

func withinAny(name string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(name, root) })
}

// allows says whether the layer may import the package in dir.
func (l layer) allows(dir string) bool {
	return slices.ContainsFunc(l.own, func(pattern string) bool {
		root, below := strings.CutSuffix(pattern, "/...")
		return dir == root || below && within(dir, root)
	})
}

// layerOf returns the layer of the package in dir.
func layerOf(dir string) (layer, bool) {
	for ; dir != "."; dir = path.Dir(dir) {
		if l, ok := layers[dir]; ok {
			return l, true
		}
	}
	return layer{}, false
}

// source is one parsed Go file.
type source struct {
	name string // with slashes, from the root
	file *ast.File
	set  *token.FileSet
}

func (s source) dir() string { return path.Dir(s.name) }
func (s source) test() bool  { return strings.HasSuffix(s.name, "_test.go") }
func (s source) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", s.name, s.set.Position(p).Line)
}

// sources parses every Go file, whatever its build tags.
func sources(root fs.FS) ([]source, error) {
	var all []source
	err := files(root, func(name string, text []byte) error {
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		all = append(all, source{name, file, set})
		return err
	})
	return all, err
}

// files calls f with every file below root, except what git keeps for itself.
func files(root fs.FS, f func(name string, text []byte) error) error {
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		return f(name, text)
	})
}

// checkImports holds the import table.
func checkImports(all []source) (faults []string) {
	for _, s := range all {
		l, ok := layerOf(s.dir())
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: no layer holds package %s", s.name, s.dir()))
			continue
		}
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has refused it
			}
			if why := forbidden(s, l, name); why != "" {
				faults = append(faults, fmt.Sprintf("%s imports %s: %s", s.at(spec.Pos()), name, why))
			}
		}
	}
	return faults
}

// forbidden returns why a file of layer l must not import name, or "".
func forbidden(s source, l layer, name string) string {
	if rule, ok := only[name]; ok && !s.test() && !withinAny(s.dir(), rule.by) {
		return rule.reason
	}
	top, _, _ := strings.Cut(name, "/")
	switch own, ok := strings.CutPrefix(name, module+"/"); {
	case ok && s.test():
		from, _, _ := strings.Cut(s.dir(), "/")
		to, _, _ := strings.Cut(own, "/")
		if slices.Index(order, to) < slices.Index(order, from) {
			return "imports point one way: " + strings.Join(order, " -> ")
		}
	case ok:
		if !l.allows(own) {
			return l.reason
		}
	case s.test() && (within(name, "net/http") || withinAny(name, forTests)):
	case within(name, "net/http") && !l.http:
		return l.reason
	case strings.Contains(top, ".") && !withinAny(name, l.others):
		return l.reason
	}
	return ""
}

// checkDocs wants a doc for every package and every exported name of one. A
// name that has a declaration for each system needs it once.
func checkDocs(all []source) (faults []string) {
	documented := map[string]bool{} // packages, and names in them
	first := map[string]string{}    // the fault, if nothing documents the name
	for _, s := range all {
		if s.test() {
			continue
		}
		p := "package " + s.dir()
		documented[p] = documented[p] || s.file.Doc.Text() != ""
		first[p] = p + " has no doc"
		for _, d := range s.file.Decls {
			for name, doc := range exported(d) {
				key := p + " " + name
				documented[key] = documented[key] || doc
				first[key] = cmp.Or(first[key], fmt.Sprintf("%s: %s has no doc", s.at(d.Pos()), name))
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		if !documented[key] {
			faults = append(faults, first[key])
		}
	}
	return faults
}

// exported returns the exported names that d declares, and whether each has a
// doc. The values of an enumeration may leave it to their type.
func exported(d ast.Decl) map[string]bool {
	names := map[string]bool{}
	add := func(name string, docs ...*ast.CommentGroup) {
		names[name] = slices.ContainsFunc(docs, func(doc *ast.CommentGroup) bool { return doc.Text() != "" })
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		switch {
		case !d.Name.IsExported():
		case d.Recv == nil:
			add(d.Name.Name, d.Doc)
		case ast.IsExported(receiver(d)):
			add(receiver(d)+"."+d.Name.Name, d.Doc)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name.Name, d.Doc, spec.Doc, spec.Comment)
			case *ast.ValueSpec:
				if d.Tok == token.CONST && d.Specs[0].(*ast.ValueSpec).Type != nil {
					continue
				}
				for _, id := range spec.Names {
					add(id.Name, d.Doc, spec.Doc, spec.Comment)
				}
			}
		}
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool { return !ast.IsExported(name) })
	return names
}

// receiver returns the name of the type that d is a method of.
func receiver(d *ast.FuncDecl) string {
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.IndexListExpr:
			x = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

// checkDescriptors refuses File() in the data plane: on a connection it
// duplicates the descriptor and makes it blocking (golang/go#24455).
func checkDescriptors(all []source) (faults []string) {
	for _, s := range all {
		if !within(s.dir(), "l4") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 0 {
				return true
			}
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "File" {
				faults = append(faults, s.at(call.Pos())+": use SyscallConn instead of File")
			}
			return true
		})
	}
	return faults
}

// checkPaths refuses paths of the machine that something was written on.
func checkPaths(root fs.FS) (faults []string) {
	err := files(root, func(name string, text []byte) error {
		for _, dir := range []string{"work", "farm"} {
			if strings.Contains(string(text), "/"+dir+"/") {
				faults = append(faults, fmt.Sprintf("%s names a path below /%s", name, dir))
			}
		}
		return nil
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	return faults
}

// checkTop holds what the root of the repository has: ls should read as a
// sentence. Dot files, and what .gitignore says of the root, are free.
func checkTop(root fs.FS) (faults []string) {
	missing := map[string]bool{}
	for _, name := range strings.Fields("LICENSE README.md admin cmd config.toml go.mod go.sum l4 pool scripts") {
		missing[name] = true
	}
	ignored, err := fs.ReadFile(root, ".gitignore")
	if err != nil {
		faults = append(faults, err.Error())
	}
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, e := range entries {
		free := e.Name()[0] == '.' || slices.ContainsFunc(strings.Split(string(ignored), "\n"), func(pattern string) bool {
			ok, err := path.Match(strings.TrimPrefix(pattern, "/"), e.Name())
			return ok && err == nil
		})
		if !missing[e.Name()] && !free {
			faults = append(faults, "the root has no place for "+e.Name())
		}
		delete(missing, e.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		faults = append(faults, "the root lacks "+name)
	}
	return faults
}

// checkCommands wants every command in the README.
func checkCommands(root fs.FS, commands []string) (faults []string) {
	text, err := fs.ReadFile(root, "README.md")
	if err != nil {
		return []string{err.Error()}
	}
	for _, c := range commands {
		if !strings.Contains(string(text), c) {
			faults = append(faults, fmt.Sprintf("README.md does not mention %q", c))
		}
	}
	return faults
}

func TestArchitecture(t *testing.T) {
	root := os.DirFS("../..")
	all, err := sources(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no source was found")
	}
	commands := []string{"scripts/test", "scripts/check", "scripts/bench", "scripts/package"}
	for _, c := range newRoot().Commands() {
		commands = append(commands, c.CommandPath())
	}
	for name, faults := range map[string][]string{
		"imports":     checkImports(all),
		"docs":        checkDocs(all),
		"descriptors": checkDescriptors(all),
		"paths":       checkPaths(root),
		"top":         checkTop(root),
		"commands":    checkCommands(root, commands),
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range faults {
				t.Error(f)
			}
		})
	}
}
