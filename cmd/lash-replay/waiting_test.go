package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestLongWaitsAreNamed runs each command against servers that stop answering once it has connected. Each says within seconds what it
// waits for. The list of commands is that of the program.
func TestLongWaitsAreNamed(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	h, err := session.New(session.Config{Bus: bustest.Open(t, server), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(t.Context(), api.CreateRequest{ID: "s1"})
	runtest.NoError(t, err)
	dir := t.TempDir()
	commands := map[string][]string{
		"ls":     {"", "--at 15m"},
		"show":   {"s1"},
		"events": {"s1", "s1 --at 1"},
		"search": {"--tool x", "--tool x --at 15m"},
		"diff":   {"s1@1 s1"},
		"ui":     nil, // it reads when a page or an auditor asks for something
		"verify": {"s1", "--all"},
		"check":  {"", "s1"},
		"export": {"s1 -o " + filepath.Join(dir, "s1.lash"), "--all -o " + filepath.Join(dir, "all"), "s1 --format markdown -o " + filepath.Join(dir, "s1.md")},
		"stats":  {"", "s1"},
	}
	for _, command := range leaves(t) {
		lines, ok := commands[command]
		if !ok {
			t.Errorf("%s: this test has no arguments for it", command)
		}
		for _, args := range lines {
			t.Run(strings.Join(strings.Fields(command+" "+strings.ReplaceAll(args, dir, "")), "_"), func(t *testing.T) {
				t.Parallel()
				proxy := bustest.StallAfterOpen(t, server)
				wantWait(t, proxy.URL, slices.Concat([]string{command, "--nats", proxy.URL}, strings.Fields(args))...)
				if !proxy.Stalled() {
					t.Error("it made no request after it had connected")
				}
			})
		}
	}
}

// leaves are the commands of the program, without its name.
func leaves(t *testing.T) (list []string) {
	t.Helper()
	parser, err := line(&cli{}).Parser(&program.Streams{Out: io.Discard, Err: io.Discard}, func(int) {})
	runtest.NoError(t, err)
	for _, leaf := range parser.Model.Leaves(true) {
		list = append(list, strings.TrimPrefix(leaf.FullPath(), "lash-replay "))
	}
	if len(list) < 10 {
		t.Fatalf("got %d commands, want all", len(list))
	}
	return list
}

// wantWait runs a command until it says that it waits for the servers, and kills it then. It fails where the command ends before.
func wantWait(t *testing.T, servers string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Args = append([]string{"lash-replay"}, args...) // this name makes the test binary run the command
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	runtest.NoError(t, err)
	want := "lash-replay: waiting for the servers at " + servers
	var lines []string
	for scan := bufio.NewScanner(stderr); !slices.Contains(lines, want) && scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	cancel()
	_ = cmd.Wait()
	if !slices.Contains(lines, want) {
		t.Errorf("%v: got %q, want %q", args, lines, want)
	}
}

// TestLongSaysWhatItWaitsFor has a server that takes connections and sends nothing, as one that hangs.
func TestLongSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	on, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	defer on.Close() //nolint:errcheck // the test's end
	url := "nats://me:hidden@" + on.Addr().String()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"ls", "--nats", url}, &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if want := "waiting for the servers at nats://xxxxx@" + on.Addr().String(); code == 0 || !strings.Contains(errs.String(), want) {
		t.Errorf("got exit code %d and %s, want %s", code, errs.String(), want)
	}
}
