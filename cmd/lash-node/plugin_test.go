package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// pluginRun starts `lash-node plugin run notes`, whose program has no tools.
func pluginRun(t *testing.T, flags ...string) (await func(text string) string, stop func() int) {
	t.Helper()
	const program = `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[]}}'; while read -r line; do :; done`
	return pluginRunOf(t, append(flags, "--", "sh", "-c", program)...)
}

// pluginRunOf starts `lash-node plugin run notes`. await returns the next line of standard error that contains a text; stop
// sends SIGTERM, and returns the exit code.
func pluginRunOf(t *testing.T, args ...string) (await func(text string) string, stop func() int) {
	t.Helper()
	cmd := exec.CommandContext(limited(t), os.Args[0])
	cmd.Args = append([]string{"lash-node", "plugin", "run", "notes"}, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	runtest.NoError(t, err)
	lines := bufio.NewScanner(stderr)
	await = func(text string) string {
		t.Helper()
		for lines.Scan() {
			t.Log(lines.Text())
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("it ended before it printed %q", text)
		return ""
	}
	return await, func() int {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		for lines.Scan() {
			t.Log(lines.Text())
		}
		_ = cmd.Wait() // its exit code is the result
		return cmd.ProcessState.ExitCode()
	}
}

// TestLongPluginWaitsForServer starts a program of a plugin while no server runs, with the file that the server made. The
// program names the server, and registers once the server runs. After the server's end, SIGTERM ends the program with 0.
func TestLongPluginWaitsForServer(t *testing.T) {
	t.Parallel()
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	dir := t.TempDir()
	store, file, listen := filepath.Join(dir, "st"), filepath.Join(dir, "plugins.json"), fmt.Sprintf("127.0.0.1:%d", ports[0])
	runtest.NoError(t, os.WriteFile(file, []byte(`{"plugins": [{"name": "notes"}]}`), 0o600))
	node := func() *serving {
		return serveModel(t, "", "--provider", "scripted", "--store", store, "--listen", listen, "--set", "external-plugins="+file)
	}
	node().stop(t, syscall.SIGTERM)

	await, stop := pluginRun(t, "--connection", busembed.PluginFile(store, "notes"))
	if line := await("no server answers"); !strings.Contains(line, "nats://"+listen) || !strings.Contains(line, "lash-node serve") {
		t.Errorf("got %q, want the server's URL, and what starts it", line)
	}
	if code := stop(); code != 0 {
		t.Errorf("SIGTERM before a server runs: got exit code %d, want 0", code)
	}

	await, stop = pluginRun(t, "--connection", busembed.PluginFile(store, "notes"))
	await("no server answers")
	n := node()
	await("plugin notes is registered")
	n.stop(t, syscall.SIGTERM)
	if code := stop(); code != 0 {
		t.Errorf("SIGTERM after the server's end: got exit code %d, want 0", code)
	}
}

// TestLongPluginWithoutNode starts a program of a plugin at a server without a node. SIGTERM ends it with 0. A server that
// needs a key refuses it with an exit code, and without its password in the error.
func TestLongPluginWithoutNode(t *testing.T) {
	t.Parallel()
	server, _, _ := roles(t)
	await, stop := pluginRun(t, "--nats", server)
	await("waiting for a node")
	if code := stop(); code != 0 {
		t.Errorf("SIGTERM before a node runs: got exit code %d, want 0", code)
	}
	await, stop = pluginRun(t, "--nats", strings.Replace(server, ":x@", ":secret@", 1))
	if line := await("lash-node: "); !strings.Contains(line, "connect to nats://127.0.0.1") || strings.Contains(line, "secret") {
		t.Errorf("wrong password: got %q, want the server without the password", line)
	}
	if code := stop(); code != 2 {
		t.Errorf("wrong password: got exit code %d, want 2", code)
	}
}

// TestSandboxHidesKey runs a program as another user. It cannot read the file with the plugin's key, which it can without.
func TestSandboxHidesKey(t *testing.T) {
	t.Parallel()
	runtest.Root(t)
	runtest.Tools(t, map[string]string{"setpriv": "util-linux"}, "setpriv")
	node, _, _ := roles(t)
	file := filepath.Join(t.TempDir(), "notes.json")
	runtest.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"url": %q}`, node), 0o600))
	for sandbox, want := range map[string]string{"": "read", "setpriv --reuid=65534 --regid=65534 --clear-groups": "not read"} {
		cmd := exec.CommandContext(limited(t), os.Args[0])
		cmd.Args = []string{"lash-node", "plugin", "run", "notes", "--connection", file, "--dir", "/", "--sandbox", sandbox, "--", "sh", "-c", `cat ` + file + ` >/dev/null 2>&1 && echo "is read" >&2 || echo "is not read" >&2`}
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		out, _ := cmd.CombinedOutput() // the program ends before it registers
		if !strings.Contains(string(out), "is "+want) {
			t.Errorf("sandbox %q: got %s, want that the key is %s", sandbox, out, want)
		}
	}
}
