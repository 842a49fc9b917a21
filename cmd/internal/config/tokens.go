package config

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"sluice/admin"
)

const (
	maxTokens   = 1 << 20 // bytes of a token file
	shortSecret = 16      // bytes; 128 bits of hex are twice as long
)

// tokens reads the file that token_file names. It never shows a line of it.
func (t table) tokens(key string) (path string, all []admin.Token) {
	path = t.text(key, "")
	if path == "" {
		return "", nil
	}
	if !t.in.mayOpen(path) {
		t.warn(key, "%s is not read for a plan: only a reload can tell whether it is right", path)
		return path, nil
	}
	text, err := t.readSecret(key, path)
	if err != nil {
		t.wrong(key, "%v", err)
		return path, nil
	}
	if all, err = parseTokens(text); err != nil {
		t.wrong(key, "%s: %v", path, err)
		return path, nil
	}
	for i, token := range all {
		if len(token.Secret) < shortSecret {
			t.warn(key, "%s: token %d is shorter than %d characters and can be guessed", path, i+1, shortSecret)
		}
	}
	return path, all
}

// Tokens reads a file of tokens, as token_file of [admin] names one.
func Tokens(path string) ([]admin.Token, error) {
	text, _, err := readFile(path, maxTokens)
	if err != nil {
		return nil, err
	}
	all, err := parseTokens(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// notAllowed says of a file that may not be read what to do about it.
func notAllowed(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w to the user that runs this; make it that user's, or under systemd hand it over by LoadCredential=", err)
	}
	return err
}

// readSecret reads a small regular file, and warns if others can read it too.
func (t table) readSecret(key, path string) ([]byte, error) {
	text, info, err := readFile(path, maxTokens)
	if err != nil {
		return nil, notAllowed(err)
	}
	if len(text) > maxTokens {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxTokens>>20)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		t.warn(key, "%s has mode %04o, so every user of this machine can read it; chmod 0600 it", path, mode)
	}
	return text, err
}

// parseTokens reads lines "read TOKEN" and "operate TOKEN"; a bare TOKEN is
// operate. Blank lines and lines that start with '#' are skipped.
func parseTokens(text []byte) ([]admin.Token, error) {
	var all []admin.Token
	line := bufio.NewScanner(bytes.NewReader(text))
	line.Buffer(nil, maxTokens+1)
	for number := 1; line.Scan(); number++ {
		fields := strings.Fields(line.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		token, err := parseToken(fields)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		for _, other := range all {
			if other.Secret == token.Secret {
				return nil, fmt.Errorf("line %d: the same token as on a line before; remove one", number)
			}
		}
		all = append(all, token)
	}
	if len(all) == 0 && line.Err() == nil {
		return nil, errors.New(`no token; write a line such as "operate TOKEN"`)
	}
	return all, line.Err()
}

func parseToken(fields []string) (admin.Token, error) {
	role, secret := fields[0], fields[len(fields)-1]
	if len(fields) == 1 {
		role = "operate"
	}
	switch {
	case len(fields) > 2 || role != "read" && role != "operate":
		return admin.Token{}, errors.New(`neither "read TOKEN", "operate TOKEN" nor a token alone`)
	case secret == "read" || secret == "operate":
		return admin.Token{}, errors.New("a role without a token")
	case strings.IndexFunc(secret, func(r rune) bool { return r < '!' || r > '~' }) >= 0:
		return admin.Token{}, errors.New("a token is made of visible ASCII characters")
	}
	return admin.Token{Secret: secret, Operate: role == "operate"}, nil
}
