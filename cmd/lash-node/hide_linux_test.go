package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// unprivileged makes a command that runs this program as an unprivileged user, and a directory of that user.
func unprivileged(t *testing.T) (cmd *exec.Cmd, dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lash-hide-") //nolint:usetesting // the test's own directory is readable by root only
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return exec.CommandContext(limited(t), os.Args[0]), dir
	}
	const nobody = 65534
	program := filepath.Join(dir, "lash-node")
	from, err := os.Open(os.Args[0])
	runtest.NoError(t, err)
	defer from.Close() //nolint:errcheck // it is only read
	to, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o700)
	runtest.NoError(t, err)
	_, err = io.Copy(to, from)
	for _, err := range []error{err, to.Close(), os.Chown(program, nobody, nobody), os.Chown(dir, nobody, nobody)} {
		runtest.NoError(t, err)
	}
	cmd = exec.CommandContext(limited(t), program)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, NoSetGroups: true}}
	return cmd, dir
}

// TestLongCommandsSeeNoKeys runs a command that searches for the node's keys in the environment of every process that it
// may read, in the node's memory, and in a file that was open when the node started.
func TestLongCommandsSeeNoKeys(t *testing.T) {
	t.Parallel()
	cmd, dir := unprivileged(t)
	inherited, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		_, err = inherited.WriteString("hidden-key")
	}
	if err == nil {
		_, err = inherited.Seek(0, io.SeekStart)
	}
	runtest.NoError(t, err)
	defer inherited.Close()                //nolint:errcheck // it is only read
	cmd.ExtraFiles = []*os.File{inherited} // 3
	// The quotes split the keyword, so that the search does not find its own command line.
	look := `{"command":"all() { for f in /proc/[0-9]*/environ; do cat $f; done 2>/dev/null | tr '\\0' '\\n'; }; ` +
		`echo node=$(cat /proc/$PPID/environ 2>/dev/null | wc -c) maps=$(cat /proc/$PPID/maps 2>/dev/null | wc -c) keys=$(all | grep -ac hidden-''key) file=$( (cat <&3) 2>/dev/null | wc -c) own=$(all | grep -ac ^PATH= | sed 's/^[1-9].*/some/')"}`
	s := serveAs(t, cmd, []string{"OPENAI_API_KEY=hidden-key", "OPENAI_BASE_URL=" + endpoint(t, "run_command "+look)},
		"--model", "m", "--store", filepath.Join(dir, "st"), "--listen", "127.0.0.1:0", "--plugins", "gate,shell", "--root", dir, "--allow", "run_command")
	defer s.stop(t, syscall.SIGTERM)
	h := clientOf(t, s)
	_, err = h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	_, err = h.Run(limited(t), "s", api.Ask("look"))
	runtest.NoError(t, err)
	if got := resultsOf(t, h); len(got) != 1 || strings.TrimSpace(got[0]) != "node=0 maps=0 keys=0 file=0 own=some" {
		t.Errorf("got %q, want nothing of the node and no key", got)
	}
}
