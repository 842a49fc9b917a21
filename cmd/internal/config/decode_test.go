package config

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestUnreadableText(t *testing.T) {
	t.Parallel()
	f := func(text, want string) {
		t.Helper()
		if got := refused(t, text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	f("", "test.toml:1: the file is empty; it needs at least one [[frontend]] and its [[pool]]")
	f(byteOrderMark+"\r\n", "test.toml:1: the file is empty; it needs at least one [[frontend]] and its [[pool]]")
	f("\xff\xfea\x00", "test.toml:1: the file is UTF-16; save it as UTF-8")
	f("[log]\nlevel\x00 = 1", "test.toml:2: a NUL byte: the file is not text, or not UTF-8; save it as UTF-8")
	f("[log]\n\n# caf\xe9", "test.toml:3: byte 0xe9 is not valid UTF-8; save the file as UTF-8")
	f("\na = "+strings.Repeat("[", 1<<20), "test.toml:2: nested deeper than 32 levels")
	f(strings.Repeat("#", maxSize+1), "test.toml:1: the file is larger than 16 MiB")
	f("[log]\nlevel = \"in\tfo\x01\"", "test.toml:2: log.level: syntax: TOML files cannot contain control characters: '0x01'")
	f("[log]\nlevel = \"info", `test.toml:2: log.level: syntax: unexpected EOF; expected '"'; it is not closed`)
	f("[log]\nlevel = \"\\q\"", `test.toml:2: log.level: syntax: invalid escape in string '\q'; write a backslash twice, or the string in single quotes`)
	f("[log]\n[log]", "test.toml:2: syntax: Key 'log' has already been defined; it may stand only once")
	f("[[pool]\n", "test.toml:1: syntax: expected end of table array name delimiter ']', but got '\\n' instead; write [[ and ]]")
	f("\b", "test.toml:1: syntax: TOML files cannot contain control characters: '0x08'")
	f(byteOrderMark+"a = 1\nb = \n", "test.toml:2: b: syntax: expected value but found '\\n' instead; a value is missing")
	f("a = 99999999999999999999", "test.toml:1: a: syntax: 99999999999999999999 is out of range for int64")
}

func TestASyntaxErrorSaysHowToMendIt(t *testing.T) {
	t.Parallel()
	f := func(text, remedy string) {
		t.Helper()
		if got := refused(t, text); !strings.HasSuffix(got, "; "+remedy) {
			t.Errorf("got %s for %q, want %q at its end", got, text, remedy)
		}
	}
	for _, value := range []string{"127.0.0.1:80", "5m", "redis", ":80", "[::1]:80"} {
		f("a = "+value+"\n", inQuotes)
	}
	f("mode = 0600\n", `permission bits stand in quotes, such as "0600"`)
	f("a =\n", "a value is missing")
	f("a: 1\n", "write key = value")
	f("global\n  maxconn 100\n", "write key = value")
	f("a = \"b\n", "a closing quote is missing")
	f("a = \"\\+PONG\"\n", "write a backslash twice, or the string in single quotes")
	f("a = 1\na = 2\n", "it may stand only once")
	f("[[pool]\n", "write [[ and ]]")
}

func TestLineEndsAndByteOrderMarkDoNotMatter(t *testing.T) {
	t.Parallel()
	text := newDocument().String()
	want := newDocument().parsed(t)
	for _, variant := range []string{strings.ReplaceAll(text, "\n", "\r\n"), byteOrderMark + text, strings.TrimSpace(text)} {
		got, err := Parse("test.toml", []byte(variant))
		if err != nil {
			t.Errorf("got %v for %q", err, variant)
			continue
		}
		if !reflect.DeepEqual(withoutFuncs(got), want) {
			t.Errorf("got %+v, want %+v for %q", got, want, variant)
		}
	}
}

func TestMistakesOfOneFileAreInItsOrder(t *testing.T) {
	t.Parallel()
	got := refused(t, "\n\n[zzz]\n[[frontend]]\n[[pool]]\nname='p'\nxxx=1\n[log]\nlevel=1\n[aaa]\n")
	var numbers []string
	for _, m := range regexp.MustCompile(`(?m)^test.toml:(\d+): `).FindAllStringSubmatch(got, -1) {
		numbers = append(numbers, m[1])
	}
	if want := "3 4 4 4 7 9 10"; strings.Join(numbers, " ") != want {
		t.Errorf("got lines %v, want %s in\n%s", numbers, want, got)
	}
}

// A finding is one line, whatever is in a key, a value or a name.
func TestFindingsAreOneLineEach(t *testing.T) {
	t.Parallel()
	got := refused(t, newDocument().String()+"\n"+`[log]
level = "a\nb"
"a\nb" = 1
["c\nd"]
[[pool]]
name = "e\nf"
strategy = """
x"""
`)
	for line := range strings.Lines(got) {
		if !strings.HasPrefix(line, "test.toml:") {
			t.Errorf("got the line %q", line)
		}
	}
}

var finding = regexp.MustCompile(`^test\.toml:[1-9][0-9]*: .+`)

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, shipped) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		c, err := Parse("test.toml", text)
		if !bytes.Equal(text, before) {
			t.Error("Parse changed its input")
		}
		if (c == nil) == (err == nil) {
			t.Fatalf("got %v and %v, want one of them", c, err)
		}
		found := ""
		if err != nil {
			found = err.Error()
		} else {
			found = strings.Join(c.Warnings, "\n")
		}
		for line := range strings.Lines(found) {
			if !finding.MatchString(line) {
				t.Errorf("got the line %q", line)
			}
		}
	})
}
