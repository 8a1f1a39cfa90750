package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// apart are the commands that connect to no NATS server of another process, and mcp serve, which [TestLongWaitForHTTPIsNamed] has.
func apart() []string {
	return []string{
		"config", "demo", "demo-edit", "rerun", "plugin check", "models check", "check", "keys make", "keys certify", "keys show",
		"keys bodies make", "keys bodies show", "keys bodies add", "keys bodies use", "keys bodies forget", "mcp serve", "mcp login",
	}
}

// TestLongWaitsAreNamed runs each command against servers that stop answering once it has connected. Each says within seconds what it
// waits for. The list of commands is that of the program.
func TestLongWaitsAreNamed(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	h, err := session.New(session.Config{Bus: bustest.Open(t, server), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(limited(t), api.CreateRequest{ID: "s1"})
	runtest.NoError(t, err)
	dir := t.TempDir()
	idle := filepath.Join(dir, "idle.lash")
	writeIdle(t, idle)
	const program = `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[]}}'; while read -r line; do :; done`
	commands := map[string][]string{
		"chat":       {"--session", "s1"},
		"serve":      {"--store", dir},
		"approvals":  nil,
		"approve":    {"s1", "t1/0/0"},
		"plugins":    nil,
		"plugin run": {"notes", "--", "sh", "-c", program},
		"import":     {idle},
		"fork":       {"s1"},
		"erase":      {"s1", "--reason", "x", "--yes"},
		"redact":     {"s1", "--reason", "x", "--kind", "tool.*", "--yes"},
		"dead ls":    nil,
		"dead show":  {"s1"},
		"dead retry": {"s1"},
		"dead drop":  {"s1"},
	}
	for _, command := range leaves(t) {
		args, connects := commands[command]
		if !connects && !slices.Contains(apart(), command) {
			t.Errorf("%s: this test has no arguments for it", command)
		}
		if !connects {
			continue
		}
		t.Run(strings.ReplaceAll(command, " ", "_"), func(t *testing.T) {
			t.Parallel()
			proxy := bustest.StallAfterOpen(t, server)
			wantWait(t, slices.Concat(strings.Fields(command), []string{"--nats", proxy.URL}, args)...)
			if !proxy.Stalled() {
				t.Error("it made no request after it had connected")
			}
		})
	}
}

// TestLongWaitForHTTPIsNamed has a node that accepts connections and does not respond.
func TestLongWaitForHTTPIsNamed(t *testing.T) {
	t.Parallel()
	on, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	defer on.Close() //nolint:errcheck // the test's end
	token := filepath.Join(t.TempDir(), "token")
	runtest.NoError(t, os.WriteFile(token, []byte("x"), 0o600))
	wantWait(t, "mcp", "--url", "http://"+on.Addr().String(), "--token-file", token)
}

// leaves are the commands of the program, without its name.
func leaves(t *testing.T) (list []string) {
	t.Helper()
	parser, err := line(&cli{}).Parser(&streams{Out: io.Discard, Err: io.Discard}, func(int) {})
	runtest.NoError(t, err)
	for _, leaf := range parser.Model.Leaves(true) {
		path := strings.Fields(leaf.FullPath())
		list = append(list, strings.Join(path[1:], " "))
	}
	if len(list) < 20 {
		t.Fatalf("got %d commands, want all", len(list))
	}
	return list
}

// wantWait runs a command until it says what it waits for, and kills it then. It fails where the command ends before.
func wantWait(t *testing.T, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = append([]string{"lash-node"}, args...)
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0", "USER=ann")
	stdin, err := cmd.StdinPipe() // stays open
	runtest.NoError(t, err)
	defer stdin.Close() //nolint:errcheck // the process has ended
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	runtest.NoError(t, err)
	waits := regexp.MustCompile(`^(lash-node: )?waiting(:| for) `)
	var lines []string
	for scan := bufio.NewScanner(stderr); !slices.ContainsFunc(lines, waits.MatchString) && scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	cancel()
	_ = cmd.Wait()
	if !slices.ContainsFunc(lines, waits.MatchString) {
		t.Errorf("%v: it did not say what it waits for: got %q", args, lines)
	}
}
