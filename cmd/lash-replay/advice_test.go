package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// TestAdvice makes commands fail in each way that a user can repair. The last line of output names the flag or the
// command that repairs it.
func TestAdvice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad, empty, text, store := filepath.Join(dir, "bad.lash"), filepath.Join(dir, "empty.lash"), filepath.Join(dir, "text"), filepath.Join(dir, "st")
	h := &badHistory{state: projector.New("bad")}
	h.add(events.Of("", &events.SessionOpened{}))
	for _, err := range []error{makeBad([]string{"nothing", bad}), writeArchive(empty, h.list), os.WriteFile(text, []byte("text"), 0o600), tamper([]string{bad, filepath.Join(dir, "torn.lash")})} {
		runtest.NoError(t, err)
	}
	server, b, err := openTestStore(store, busembed.Config{})
	runtest.NoError(t, err)
	b.Close()
	server.Stop()
	next := regexp.MustCompile(`(--[a-z]+|lash-(node|replay) [a-z]+)\b`)
	on := " --store " + store
	for _, c := range []struct{ command, want string }{
		{"ls", "--store DIR"},
		{"ls --store " + dir, "--store names the directory"},
		{"ls --nats nats://127.0.0.1:1", "--store DIR reads the store"},
		{"ls --file nofile", "no such file"},
		{"ls --status nosuch --file " + bad, "--status"},
		{"ls --nosuch", "lash-replay ls --help"},
		{"ls --nats x --file " + bad, "can't be used together"},
		{"show nofile.lash", "no such file"},
		{"show nofile.lash" + on, "there is no such file"},
		{"show nosuch" + on, "lash-replay ls"},
		{"show" + on, "lash-replay ls"},
		{"show " + text, "lash-replay export"},
		{"show " + dir, "is a directory"},
		{"show " + dir + "/torn.lash", "the archive is damaged"},
		{"show " + bad + " --max-mib 0", "--max-mib allows more"},
		{"show " + bad + " --at 99", "--at"},
		{"show " + bad + " --bodies nofile", "--bodies"},
		{"show --turn t1 " + empty, "lash-replay show"},
		{"show --turn nosuch " + bad, "lash-replay show"},
		{"events nosuch" + on, "lash-replay ls"},
		{"events " + bad + " --at 1.9", "--at"},
		{"events --follow nosuch" + on, "lash-replay ls"},
		{"diff " + bad + " nofile", "second state"},
		{"diff " + bad + "@99 " + bad, "1 to 3"},
		{"diff --at 1 " + bad + " " + bad, "--at"},
		{"search" + on, "--tool"},
		{"search --since nosuch x" + on, "--since"},
		{"search x --file nofile", "no such file"},
		{"verify", "--store DIR"},
		{"verify" + on, "--all"},
		{"verify --all", "--store DIR"},
		{"verify nosuch" + on, "lash-replay ls"},
		{"verify --key nofile " + bad, "--key"},
		{"verify --key " + text + " " + bad, "tenant.pub"},
		{"verify --key " + empty + " " + bad, "tenant.pub"},
		{"verify --head nofile " + bad, "--key"},
		{"check nofile.lash", "no such file"},
		{"check nosuch" + on, "lash-replay ls"},
		{"check " + text, "lash-replay export"},
		{"export nosuch -o " + dir + "/n" + on, "lash-replay ls"},
		{"export --all x -o " + dir + "/n" + on, "--all"},
		{"export -o " + bad + " " + bad, "--force"},
		{"export --children -o " + dir + "/n " + bad, "use record"},
		{"export --format nosuch -o " + dir + "/n " + bad, "--format"},
		{"export --redact nosuch -o " + dir + "/r.lash " + bad, "--reason"},
		{"export --redact nosuch --reason x -o " + dir + "/r.lash " + bad, "lash-replay events --json lists them"},
		{"export -o /dev/null/x " + bad, "not a directory"},
		{"stats nosuch" + on, "lash-replay ls"},
		{"stats nofile.lash", "no such file"},
		{"ui --listen 192.0.2.1:0 " + bad, "--listen"},
		{"ui", "--store DIR"},
		{"ui --auditors" + on, "--nats URL"},
		{"ui nofile.lash", "no such file"},
		{"ui " + text, "lash-replay export"},
	} {
		var errs strings.Builder
		code := run(t.Context(), strings.Fields(c.command), &program.Streams{Out: &strings.Builder{}, Err: &errs, Env: func(string) string { return "" }})
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		if last := lines[len(lines)-1]; code != exitError || !strings.Contains(last, c.want) || !next.MatchString(last) {
			t.Errorf("%s: got exit code %d and %q, want %q and a flag or a command in the last line", c.command, code, last, c.want)
		}
	}
}
