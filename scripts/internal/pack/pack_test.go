// Package pack tests what scripts/package and scripts/Dockerfile make of the
// program.
package pack

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// output runs a program and returns what it printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The package has what belongs in one, the program in it needs no library, and
// its configuration is left alone by an upgrade.
func TestDebianPackage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: packages are made on Linux")
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("SKIPPED: dpkg-deb is not installed")
	}
	dir := t.TempDir()
	printed := output(t, filepath.Join(root, "scripts/package"), "-v", "v1.2.3-4-gabcdef", dir)
	if n := len(regexp.MustCompile(`(?m)^/.*: [1-9][0-9]{5,} bytes$`).FindAllString(printed, -1)); n != 2 {
		t.Errorf("got sizes %q, want those of the binary and of the package", printed)
	}
	debs, _ := filepath.Glob(filepath.Join(dir, "sluice_1.2.3-4-gabcdef_*.deb"))
	if len(debs) != 1 {
		t.Fatalf("got packages %q, want one", debs)
	}
	about := output(t, "dpkg-deb", "-f", debs[0], "Package", "Version", "Section", "Description")
	for _, want := range []string{"Package: sluice\n", "Version: 1.2.3-4-gabcdef\n", "Section: net\n"} {
		if !strings.Contains(about, want) {
			t.Errorf("got %q, want %q in it", about, want)
		}
	}
	list := output(t, "dpkg-deb", "-c", debs[0])
	for _, want := range []string{
		`-rwxr-xr-x root/root .* \./usr/bin/sluice`,
		`-rw-r--r-- root/root .* \./etc/sluice/config.toml`,
		`-rw-r--r-- .* \./usr/lib/systemd/system/sluice.service`,
		`-rw-r--r-- .* \./usr/share/man/man1/sluice.1.gz`,
		`-rw-r--r-- .* \./usr/share/bash-completion/completions/sluice`,
		`-rw-r--r-- .* \./usr/share/zsh/vendor-completions/_sluice`,
		`-rw-r--r-- .* \./usr/share/fish/vendor_completions.d/sluice.fish`,
		`-rw-r--r-- .* \./usr/share/doc/sluice/copyright`,
		`-rw-r--r-- .* \./usr/share/sluice/config.schema.json`,
		`-rw-r--r-- .* \./usr/share/sluice/dashboard.json`,
		`-rw-r--r-- .* \./usr/share/sluice/alerts.yml`,
		`drwxr-xr-x root/root .* \./`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(list) {
			t.Errorf("the package has nothing like %s:\n%s", want, list)
		}
	}
	output(t, "dpkg-deb", "-x", debs[0], filepath.Join(dir, "x"))
	output(t, "dpkg-deb", "-e", debs[0], filepath.Join(dir, "c"))
	if text, err := os.ReadFile(filepath.Join(dir, "c/conffiles")); err != nil || string(text) != "/etc/sluice/config.toml\n" {
		t.Errorf("got conffiles %q, %v", text, err)
	}
	checkProgram(t, filepath.Join(dir, "x"))
}

// checkProgram runs the program of an unpacked package.
func checkProgram(t *testing.T, at string) {
	program := filepath.Join(at, "usr/bin/sluice")
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the program needs a loader: it is not static")
	}
	if got := output(t, program, "version"); !strings.HasPrefix(got, "sluice 1.2.3-4-gabcdef ") {
		t.Errorf("got version %q", got)
	}
	output(t, program, "check", "-c", filepath.Join(at, "etc/sluice/config.toml"))
	page := output(t, "gzip", "-dc", filepath.Join(at, "usr/share/man/man1/sluice.1.gz"))
	if !strings.Contains(page, `1.2.3\-4\-gabcdef`) {
		t.Errorf("the manual does not tell the version: %.200s", page)
	}
}

// The image is built in one stage and is nothing but the program, as an ordinary
// user, in the other. It cannot be built here, so its file is read.
func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(read(t, "scripts/Dockerfile"), "\\\n", " ")
	var stages [][]string
	known := strings.Fields("FROM WORKDIR COPY RUN ARG ENV USER STOPSIGNAL ENTRYPOINT CMD")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, _, _ := strings.Cut(line, " ")
		if !slices.Contains(known, word) {
			t.Errorf("unknown instruction %q", line)
		}
		if word == "FROM" {
			stages = append(stages, nil)
		}
		if len(stages) == 0 {
			t.Fatalf("%q stands before the first FROM", line)
		}
		stages[len(stages)-1] = append(stages[len(stages)-1], line)
	}
	if len(stages) != 2 || stages[1][0] != "FROM scratch" {
		t.Fatalf("got stages %q, want two, and the second from scratch", stages)
	}
	for _, want := range []string{"USER 65532:65532", "STOPSIGNAL SIGTERM", `ENTRYPOINT ["/sluice"]`, `CMD ["run", "-c", "/etc/sluice/config.toml"]`} {
		if !slices.Contains(stages[1], want) {
			t.Errorf("the image lacks %s", want)
		}
	}
	built := strings.Join(stages[0], "\n")
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-X main.stamp=$VERSION", "-o /out/sluice ./cmd/sluice", "FROM golang:" + goVersion(t)} {
		if !strings.Contains(built, want) {
			t.Errorf("the build lacks %s", want)
		}
	}
	for _, line := range slices.Concat(stages...) {
		words := strings.Fields(line)
		if words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
			continue
		}
		for _, source := range words[1 : len(words)-1] {
			if _, err := os.Stat(filepath.Join(root, source)); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// goVersion is the language version of the module, such as 1.26.
func goVersion(t *testing.T) string {
	m := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindStringSubmatch(read(t, "go.mod"))
	if m == nil {
		t.Fatal("go.mod names no version")
	}
	return m[1]
}
