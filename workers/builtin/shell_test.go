package builtin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/shell"
)

func TestMain(m *testing.M) {
	// Profiles of login shells must not affect the tests.
	_ = os.Setenv("HOME", "/no-home")
	goleak.VerifyTestMain(runtest.Select(m))
}

func shellBuild(t *testing.T, cfg shell.Config) *plugin.Stack {
	t.Helper()
	factory, err := shell.Factory(cfg)
	runtest.NoError(t, err)
	return builtintest.Build(t, plugin.BuildContext{}, factory)
}

// TestDirectory: the plugin needs a directory that exists.
func TestDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	runtest.NoError(t, os.WriteFile(file, nil, 0o600))
	for dir, want := range map[string]string{filepath.Join(file, "missing"): "shell: directory: ", file: "is no directory", "": "shell: directory: "} {
		if _, err := shell.Factory(shell.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("directory %q: got %v, want %q", dir, err, want)
		}
	}
}

// TestRun: what the model reads of a command.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runtest.NoError(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	s := shellBuild(t, shell.Config{Dir: dir, MaxOutput: 1000})
	for args, want := range map[string]string{
		`{"command":"echo hello"}`:                       "hello\n",
		`{"command":"true"}`:                             "[no output]",
		`{"command":"echo no >&2; exit 3"}`:              "no\n[exit status 3]",
		`{"command":"exit 4"}`:                           "[exit status 4]",
		`{"command":"basename $PWD","cwd":"below"}`:      "below\n",
		`{"command":"cat; echo end"}`:                    "end\n", // no input
		`{"command":"echo $0 \u0027a  b\u0027 | wc -l"}`: "1\n",
	} {
		if got, err := builtintest.Call(t, s, plugin.Call{}, "run_command", args); err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v, want %q", args, got.Text, err, want)
		}
	}
	got, err := builtintest.Call(t, s, plugin.Call{}, "run_command", `{"command":"head -c 100000 /dev/zero | tr '\\0' a"}`)
	if n := len(got.Text); err != nil || n < 500 || n > 1200 {
		t.Errorf("100000 bytes of output: got %d, %v, want about 1000", n, err)
	}
}

// TestShellRefused: arguments with which no command starts.
func TestShellRefused(t *testing.T) {
	t.Parallel()
	s := shellBuild(t, shell.Config{Dir: t.TempDir(), MaxTime: time.Minute})
	for args, want := range map[string]string{
		`{"command":" \n"}`:                     "command: is blank",
		`{"command":"echo a\u0000b"}`:           "command: has a zero byte",
		`{"command":"true","timeout_ms":-1}`:    "timeout_ms: -1, want 0 to 60000",
		`{"command":"true","timeout_ms":60001}`: "timeout_ms: 60001, want 0 to 60000",
		`{"command":"true","cwd":"missing"}`:    "cwd: missing is no directory",
		`{"command":"true","cwd":"a\u0000b"}`:   "is no directory",
	} {
		_, err := builtintest.Call(t, s, plugin.Call{}, "run_command", args)
		builtintest.Refused(t, args, err, plugin.ClassInvalidRequest, want)
	}
}

// TestTimeLimit: the command is killed, and the model reads what it had printed.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	s := shellBuild(t, shell.Config{Dir: t.TempDir()})
	_, err := builtintest.Call(t, s, plugin.Call{}, "run_command", `{"command":"echo first; sleep infinity","timeout_ms":1500}`)
	builtintest.Refused(t, "slow command", err, plugin.ClassTimeout, "took longer than 1.5s, and was killed\nfirst")
}

// TestCancelled: a command of a turn that is cancelled is killed, and its call ends as cancelled.
func TestCancelled(t *testing.T) {
	t.Parallel()
	s := shellBuild(t, shell.Config{Dir: t.TempDir()})
	tool, _ := s.Tools().Find("run_command")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed := plugin.Call{Run: plugin.Running{Output: func(string, int64, string) { cancel() }}}
	got, err := tool.Handler(ctx, printed, []byte(`{"command":"echo first; sleep 600"}`))
	if err != nil || got.Outcome != events.OutcomeCancelled || got.Text != "first\n[the command was cancelled, and killed]" {
		t.Errorf("got %+v, %v, want it cancelled with its output", got, err)
	}
}
