package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

const root = "../.."

// A user executes a file.
type user struct {
	t    *testing.T
	file string // the file
	dir  string // working directory
	env  []string

	paths   *strings.Replacer // replacements of ports and folders
	at      *terminal
	serving []*terminal
}

// follow executes all blocks of a file, in order, in a folder, with additional programs and environment variables.
// paths are pairs of texts: in blocks the second replaces the first, for example a folder of the test one of the
// system.
func follow(t *testing.T, file, dir string, env []string, programs map[string]string, paths ...string) {
	t.Helper()
	runtest.Tools(t, map[string]string{"sha256sum": "coreutils"}, "curl", "sha256sum")
	list := blocks(t, file)
	u := &user{t: t, file: file, dir: dir}
	u.paths = strings.NewReplacer(append(paths, ports(t, list)...)...)
	u.env = append(environment(t, programs), env...)
	chapter := 0
	for i, b := range list {
		if b.chapter != chapter {
			chapter = b.chapter
			u.stopAll()
		}
		shown := ""
		if i+1 < len(list) && list[i+1].kind() == "text" {
			shown = list[i+1].text
		}
		if err := u.do(b, i > 0 && list[i-1].kind() == "sh", shown); err != nil {
			t.Fatalf("%s:%d: %v", file, b.line, err)
		}
	}
	u.stopAll()
}

// do executes one block. Its output is compared with shown.
func (u *user) do(b block, afterShell bool, shown string) error {
	switch b.kind() {
	case "sh":
		return u.types(b, u.paths.Replace(shown))
	case "text":
		if !afterShell {
			return fmt.Errorf("it shows what no block prints")
		}
		return nil // the block before has compared it
	case "mermaid":
		if filepath.Base(u.file) != "README.md" {
			return fmt.Errorf("no test reads this diagram")
		}
		return nil // TestDiagram reads it
	case "diagram":
		return nil
	}
	if len(b.info) != 2 {
		return fmt.Errorf("no block is run that begins as %q", b.info)
	}
	if b.kind() == "go" {
		return isPart(b.text, b.info[1])
	}
	file := u.paths.Replace(b.info[1])
	if !filepath.IsAbs(file) {
		file = filepath.Join(u.dir, file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(u.paths.Replace(b.text)), 0o600)
}

func (u *user) types(b block, shown string) error {
	if u.at == nil {
		u.at = open(u.t, u.dir, u.env)
	}
	stays := len(b.info) > 1 && b.info[1] == "stays"
	if len(b.info) > 1 && !stays {
		return fmt.Errorf("no block is run that begins as %q", b.info)
	}
	printed, err := u.at.run(u.paths.Replace(b.text), func(printed string) bool {
		return stays && shown != "" && matches(shown, printed, true) == nil
	})
	if err != nil {
		return fmt.Errorf("%w; it printed\n%s", err, printed)
	}
	u.t.Logf("%s:%d: it printed\n%s", u.file, b.line, printed)
	if shown != "" || stays {
		err = matches(shown, printed, stays)
	}
	runtest.WantError(u.t, fmt.Sprintf("%s:%d", u.file, b.line), err, nil)
	if stays {
		u.serving = append(u.serving, u.at)
		u.at = nil
	}
	return nil
}

// stopAll stops the running programs, the last first, and closes the terminals.
func (u *user) stopAll() {
	u.t.Helper()
	if u.at != nil {
		runtest.WantError(u.t, fmt.Sprintf("%s: a terminal", u.file), u.at.close(), nil)
	}
	for len(u.serving) > 0 {
		last := u.serving[len(u.serving)-1]
		u.serving = u.serving[:len(u.serving)-1]
		if err := last.interrupt(); err != nil {
			u.t.Errorf("%s: ctrl-c: %v; it printed\n%s", u.file, err, last.output.String())
		}
	}
	u.at = nil
}

// ports replaces each fixed port of the blocks by a free one, because another test may use the port.
func ports(t *testing.T, list []block) (pairs []string) {
	t.Helper()
	seen := make(map[string]bool)
	for _, b := range list {
		for _, m := range regexp.MustCompile(`127\.0\.0\.1:(\d{4,5})`).FindAllString(b.text, -1) {
			seen[m] = true
		}
	}
	free, err := busembed.FreePorts(len(seen))
	runtest.NoError(t, err)
	for m := range seen {
		pairs = append(pairs, m, fmt.Sprintf("127.0.0.1:%d", free[0]))
		free = free[1:]
	}
	return pairs
}

// isPart searches a file of the repository for a block. The indentation may differ.
func isPart(text, file string) error {
	data, err := os.ReadFile(filepath.Join(root, file)) //nolint:gosec // a file of this repository
	if err != nil {
		return err
	}
	for indent := ""; len(indent) < 4; indent += "\t" {
		shifted := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(text, indent+"$1")
		if strings.Contains(string(data), shifted) {
			return nil
		}
	}
	return fmt.Errorf("it is no part of %s", file)
}
