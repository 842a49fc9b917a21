package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// Each line of the document says in its comment which paths begin on it.
const documentOfPaths = `# nothing
top = 1 #: top
"quoted key" = 2 #: "quoted key"
'lit#eral' = 3 #: "lit#eral"
"esc\u0061ped\"=" = 4 #: "escaped\"="
"" = 5 #: ""
dotted.a . "b.c" = 6 #: dotted dotted.a dotted.a."b.c"

long = """
[not.a.table] "" \""" ""\
key = 1 """"" #
literal = '''
[[nor.this]] # ' ''
'''' #
array = [ #: array
  1, 2, #: array[0] array[1]
  # ], comment
  "],}", '#[', #: array[2] array[3]
  [ """x
  y""", { k = 1 } ], #
  { a = 1, b.c = [ 2 ] }, #: array[5] array[5].a array[5].b array[5].b.c array[5].b.c[0]
  1979-05-27 07:32:00, #: array[6]
] #
inline = { a = "}", 'b' = { c = ']' }, d = [ ] } #: inline inline.a inline.b inline.b.c inline.d
after = true #: after

[table] #: table
key = 1 #: table.key
sub.key = 1 #: table.sub table.sub.key
[ parent . "child" ] # also #: parent.child
key = 1 #: parent.child.key
[parent] #: parent
key = 1 #: parent.key

[[list]] #: list list[0]
key = 1 #: list[0].key
[list.table] #: list[0].table
key = 1 #: list[0].table.key
[[list.list]] #: list[0].list list[0].list[0]
[[list.list]] #: list[0].list[1]
key = 1 #: list[0].list[1].key
[list.list.table] #: list[0].list[1].table
[[ list ]] #: list[1]
key = 1 #: list[1].key
[[list.list]] #: list[1].list list[1].list[0]
key = 1 #: list[1].list[0].key
last = { key = 1 } #: list[1].list[0].last list[1].list[0].last.key`

func TestScanFindsEveryKey(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"LF":   documentOfPaths,
		"CRLF": strings.ReplaceAll(documentOfPaths, "\n", "\r\n"),
		"BOM":  byteOrderMark + documentOfPaths,
	} {
		got, err := scan(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(documentOfPaths, "\n") {
			_, paths, _ := strings.Cut(line, "#: ")
			for _, path := range strings.Fields(strings.ReplaceAll(paths, "quoted key", "quoted~key")) {
				path = strings.ReplaceAll(path, "~", " ")
				if got[path] != i+1 {
					t.Errorf("%s: got line %d for %s, want %d", name, got[path], path, i+1)
				}
			}
		}
		if path, ok := untraced(text, got); ok {
			t.Errorf("%s: got no line for %s", name, path)
		}
	}
}

// untraced decodes a document and returns a path that the scanner did not find.
func untraced(text string, where lines) (string, bool) {
	var root map[string]any
	if _, err := toml.Decode(text, &root); err != nil {
		return err.Error(), true
	}
	last := strings.Count(text, "\n") + 1
	var visit func(path string, v any) (string, bool)
	visit = func(path string, v any) (string, bool) {
		if line, ok := where[path]; path != "" && (!ok || line < 1 || line > last) {
			return path, true
		}
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				if p, bad := visit(join(path, key), one); bad {
					return p, true
				}
			}
		case []map[string]any:
			for i, one := range v {
				if p, bad := visit(element(path, i), one); bad {
					return p, true
				}
			}
		case []any:
			for i, one := range v {
				if p, bad := visit(element(path, i), one); bad {
					return p, true
				}
			}
		}
		return "", false
	}
	return visit("", root)
}

func TestScanBoundsTheDepth(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"\na = " + strings.Repeat("[", 1<<20),
		"\na = " + strings.Repeat("{a=", 1<<20),
		"\n[" + strings.Repeat("a.", 1<<20) + "a]",
		"\n" + strings.Repeat("a.", maxDepth+1) + "a = 1",
	} {
		where, err := scan(text)
		if !errors.Is(err, errDeep) || where[""] != 2 {
			t.Errorf("got line %d, %v for %.20q, want line 2, %v", where[""], err, text, errDeep)
		}
	}
	if _, err := scan("a = " + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1)); err != nil {
		t.Errorf("got %v, want none", err)
	}
}

func TestScanBoundsTheKeys(t *testing.T) {
	t.Parallel()
	if _, err := scan("a = [" + strings.Repeat("1,", maxKeys+1) + "]"); !errors.Is(err, errMany) {
		t.Errorf("got %v, want %v", err, errMany)
	}
}

// What is no TOML only has to end.
func TestScanEndsOnBrokenText(t *testing.T) {
	t.Parallel()
	for i := range documentOfPaths {
		scan(documentOfPaths[:i])
		scan(documentOfPaths[i:])
	}
	for _, text := range []string{"=", "]", "[", "[[", "a", "a=", "a = '", `a = "\`, `"`, `"\`, "a = {", "a = {=", "a = [}", "{}", "a..b = 1"} {
		scan(text)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(documentOfPaths)
	f.Add("a = [{}, {b = 1}]\n[[c]]\n[c.d]\ne = 1")
	f.Add("a = {\n b = 1, # c\n c = [\n1\n]}")
	f.Fuzz(func(t *testing.T, text string) {
		where, err := scan(text)
		if _, broken := unmarshal(text); err != nil || broken != nil {
			return
		}
		if path, bad := untraced(text, where); bad {
			t.Errorf("got no line for %s in %q: %s", path, text, fmt.Sprint(where))
		}
	})
}
