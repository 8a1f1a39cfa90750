package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/lash-go/lash/cmd/internal/program"
)

// onScreen runs lash-replay with a terminal as output and returns what the terminal got.
func onScreen(t *testing.T, env map[string]string, args ...string) (code int, output string) {
	t.Helper()
	master, screen, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, master) // ends with an error when the terminal is closed
		got <- all.String()
	}()
	code = run(t.Context(), args, &program.Streams{Out: screen, Err: screen, Screen: screen, Env: func(name string) string { return env[name] }})
	_ = screen.Close()
	output = <-got
	_ = master.Close()
	return code, strings.ReplaceAll(output, "\r\n", "\n")
}

// TestPager: output to a terminal passes $PAGER, with colours; a pager that ends early is no error; JSON is not paged.
func TestPager(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "all.lash")
	if err := writeArchive(path, historyOfAllKinds().list); err != nil {
		t.Fatal(err)
	}
	through := map[string]string{"PAGER": "sed 's/^/> /'"}
	for name, c := range map[string]struct {
		env  map[string]string
		args []string
		want string
	}{
		"paged":      {through, []string{"tree"}, "> \x1b[1msession bad at sequence"},
		"plain":      {map[string]string{"PAGER": through["PAGER"], "NO_COLOR": "1"}, []string{"show"}, "> session bad, closed, "},
		"no pager":   {through, []string{"tree", "--no-pager"}, "\x1b[1msession bad at sequence"},
		"no colours": {through, []string{"tree", "--no-pager", "--color", "never"}, "session bad at sequence"},
		"JSON":       {through, []string{"tree", "--json"}, "{\n  \"session\": \"bad\""},
		"left":       {map[string]string{"PAGER": "head -c 3"}, []string{"events"}, "1.0"},
	} {
		code, got := onScreen(t, c.env, append(c.args, path)...)
		if code != 0 || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got exit code %d, %.300q, want %q", name, code, got, c.want)
		}
		if !strings.HasPrefix(c.want, ">") && strings.Contains(got, "\n> ") {
			t.Errorf("%s: got the pager's output", name)
		}
	}
}
