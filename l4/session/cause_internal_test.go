package session

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

// A cause that is not listed would be lost by the session that sets it.
func TestEveryCauseIsListed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "cause.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(file, func(x ast.Node) bool {
		v, ok := x.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Cause" {
			word, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			n++
			if !slices.Contains(causes[:], Cause(word)) {
				t.Errorf("%s is not among the causes", word)
			}
		}
		return true
	})
	if n != len(causes)-1 {
		t.Errorf("%d causes are declared, %d are listed", n, len(causes)-1)
	}
}
