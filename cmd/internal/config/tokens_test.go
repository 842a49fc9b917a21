package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sluice/admin"
)

// A secret of root's alone is what an ordinary user meets first.
func TestSecretThatMayNotBeRead(t *testing.T) {
	err := notAllowed(&fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission})
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "open x: permission denied to the user that runs this; ") {
		t.Errorf("got %v", err)
	}
	if err := notAllowed(fs.ErrNotExist); err.Error() != fs.ErrNotExist.Error() {
		t.Errorf("got %v of a file that is not there", err)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	c := newDocument().set("[admin]", "token_file", `"testdata/good.tokens"`).
		set("[admin]", "listen", `":8404"`).parsed(t)
	want := []admin.Token{
		{Secret: strings.Repeat("a", 24)},
		{Secret: strings.Repeat("b", 24), Operate: true},
		{Secret: strings.Repeat("c", 24), Operate: true},
	}
	if got := c.Admin.Settings.Tokens; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What others can reach is not started without tokens.
func TestPublicListenerNeedsTokens(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{
		"": false, "127.0.0.2:0": false, "[::1]:0": false, "localhost:0": false, ":0": true, "10.0.0.1:0": true, "lb:0": true,
	} {
		d := newDocument().set("[admin]", "listen", `"`+listen+`"`)
		_, err := Parse("test.toml", []byte(d.String()))
		if got := err != nil && strings.Contains(err.Error(), "set token_file"); got != want {
			t.Errorf("got %v for %q without tokens, want a refusal: %t", err, listen, want)
		}
		d.set("[admin]", "token_file", `"testdata/good.tokens"`).parsed(t)
	}
}

// tokenFile parses a file whose token file has that text and mode.
func tokenFile(t *testing.T, text string, mode os.FileMode) (*Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // the umask is left out
		t.Fatal(err)
	}
	return Parse("test.toml", []byte(newDocument().set("[admin]", "token_file", `"`+file+`"`).String()))
}

func TestTokenFileOthersCanRead(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 1, 0o602: 1} {
		c, err := tokenFile(t, "operate "+strings.Repeat("x", 32), mode)
		if err != nil || len(c.Warnings) != want {
			t.Errorf("got %+v, %v for mode %04o, want %d warnings", c, err, mode, want)
		}
	}
}

func TestShortTokenIsAWarning(t *testing.T) {
	t.Parallel()
	c, err := tokenFile(t, "secret\n", 0o600)
	if err != nil || len(c.Warnings) != 1 || strings.Contains(c.Warnings[0], "secret") {
		t.Errorf("got %+v, %v, want one warning without the token", c, err)
	}
}

func TestBadTokenFilesKeepTheSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\n# operate S3CRET\n", "write S3CRET", "operate S3CRET x", "read", "operate operate", "S3CRET\u00e9",
		"S3CRET\nread S3CRET", "S3CRET\x00", "S3CRET " + strings.Repeat("x", maxTokens),
	} {
		c, err := tokenFile(t, text, 0o600)
		if err == nil || strings.Contains(err.Error(), "S3CRET") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %+v, %v for %.40q, want one error without the token", c, err, text)
		}
	}
}

func TestTokenFileIsAFile(t *testing.T) {
	t.Parallel()
	for _, path := range []string{t.TempDir(), os.DevNull, "testdata/none", "a\x00"} {
		d := newDocument().set("[admin]", "token_file", strings.ReplaceAll(`"`+path+`"`, "\x00", `\u0000`))
		if got := d.refused(t); !strings.Contains(got, "admin.token_file: ") {
			t.Errorf("got %q for %q", got, path)
		}
	}
}

// What an editor leaves in the file of a password is told of, without it.
func TestPasswordFileOfAnEditor(t *testing.T) {
	for text, want := range map[string]string{
		"secret\n":             "",
		"secret\r\n":           "",
		"\xef\xbb\xbfsecret\n": "begins with a byte order mark",
		"secret\nanother\n":    "has several lines",
		"s\x00e\x00c\x00":      "has several lines, or a zero byte",
	} {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "sluice.toml")
		toml := "[[frontend]]\nname = \"f\"\nlisten = \"127.0.0.1:1\"\npool = \"p\"\n[[pool]]\nname = \"p\"\n[[pool.backend]]\naddress = \"127.0.0.1:2\"\n" +
			fmt.Sprintf("[pool.health]\nprobe = \"redis\"\npassword_file = %q\n", file)
		if err := os.WriteFile(path, []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(c.Warnings); !strings.Contains(got, want) || want == "" && strings.Contains(got, "password") || strings.Contains(got, "secret") {
			t.Errorf("%q: got %s, want %q in it", text, got, want)
		}
	}
}
