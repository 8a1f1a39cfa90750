package security

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestCertificatesAtOnce makes the authorities, and then a user's certificate, by several runs at the same time. One run
// makes the authorities, and the others refuse. Every certificate belongs to its key.
func TestCertificatesAtOnce(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, nil, "openssl")
	d := install(t)
	atOnce := func(args ...string) (succeeded int32) {
		var all sync.WaitGroup
		var n atomic.Int32
		for range 6 {
			all.Go(func() {
				out, err := script(d.dir, "make-certs.sh", args...)
				switch {
				case err == nil:
					n.Add(1)
				case !strings.Contains(out, "exists: it is not replaced"):
					t.Errorf("%v: got %v, %s", args, err, out)
				}
			})
		}
		all.Wait()
		return n.Load()
	}
	pair := func(name string) {
		t.Helper()
		_, err := tls.LoadX509KeyPair(d.certs(name+".pem"), d.certs(name+".key"))
		runtest.WantError(t, "certificate and key of "+name, err, nil)
	}
	runtest.Equal(t, "runs that make the authorities", atOnce("authorities"), 1)
	pair("clients-ca")
	pair("routes-ca")
	for range 3 {
		runtest.Equal(t, "runs that make the user's certificate", atOnce("user", "node@acme"), 6)
		pair("node-at-acme")
	}
	d.noRemains()
	_, err := os.Stat(d.certs("lock"))
	runtest.Equal(t, "the lock is gone", errors.Is(err, fs.ErrNotExist), true)
}

// TestCertificatesOfDeadRun has the lock of a run that was killed: the next one refuses, names the lock, and changes nothing.
func TestCertificatesOfDeadRun(t *testing.T) {
	t.Parallel()
	d := install(t)
	runtest.WantError(t, "lock", os.MkdirAll(d.certs("lock"), 0o700), nil)
	before := filesBelow(t, d.certs(""))
	run := exec.Command("sh", filepath.Join(d.dir, "make-certs.sh"), "authorities") //nolint:gosec // of this test
	run.Env = append(os.Environ(), "LOCK_SECONDS=0")
	out, err := run.CombinedOutput()
	runtest.Equal(t, "exit code", run.ProcessState.ExitCode(), 1)
	if !strings.Contains(string(out), "if none does, remove "+d.certs("lock")) {
		t.Errorf("got %v, %s, want the lock named", err, out)
	}
	runtest.Equal(t, "files", filesBelow(t, d.certs("")), before)
}

// TestCertificatesOfEndedRun ends a run at each move of a file. The next run, for another user, leaves a certificate beside its key, each time,
// and the authorities can be made to the end.
func TestCertificatesOfEndedRun(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, nil, "openssl")
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", "make-certs.sh"))
	runtest.WantError(t, "read", err, nil)
	for _, signal := range []string{"KILL", "TERM"} {
		for _, lines := range [][]string{{"authorities"}, {"authorities", "user node@acme"}} {
			line := lines[len(lines)-1]
			for last, moves := false, 1; !last; moves++ {
				dir := t.TempDir()
				runtest.WantError(t, "write", os.WriteFile(filepath.Join(dir, "make-certs.sh"), data, 0o700), nil) //nolint:gosec // a script
				for _, before := range append(lines[:len(lines)-1:len(lines)-1], lines[1:]...) {                   // there is a pair to replace
					run(t, dir, "make-certs.sh", strings.Fields(before)...)
				}
				last = !endAtMove(t, dir, signal, moves, strings.Fields(line))
				runtest.WantError(t, "remove the lock", os.RemoveAll(filepath.Join(dir, "certs", "lock")), nil)
				if line == "authorities" && !last {
					run(t, dir, "make-certs.sh", authoritiesLeft(dir)...)
				}
				run(t, dir, "make-certs.sh", "user", "host@acme")
				keys, err := filepath.Glob(filepath.Join(dir, "certs", "*.key"))
				runtest.WantError(t, "list", err, nil)
				for _, key := range keys {
					_, err := tls.LoadX509KeyPair(strings.TrimSuffix(key, "key")+"pem", key)
					runtest.WantError(t, signal+" at move "+strconv.Itoa(moves)+" of "+line+": "+filepath.Base(key), err, nil)
				}
				rest, err := filepath.Glob(filepath.Join(dir, "certs", "*.??????"))
				runtest.WantError(t, "list", err, nil)
				runtest.EqualLists(t, "remains", rest, nil)
				if moves > 8 {
					t.Fatal("got more moves than files")
				}
			}
		}
	}
}

// authoritiesLeft are the arguments of a run that makes the authorities that are missing, or else a certificate.
func authoritiesLeft(dir string) []string {
	if _, err := os.Stat(filepath.Join(dir, "certs", "routes-ca.key")); err != nil {
		return []string{"authorities"}
	}
	return []string{"user", "host@acme"}
}

// endAtMove runs make-certs.sh, and sends it a signal before a move of a file. It reports whether there was such a move.
func endAtMove(t *testing.T, dir, signal string, move int, args []string) bool {
	t.Helper()
	bin := t.TempDir()
	mv, err := exec.LookPath("mv")
	runtest.WantError(t, "mv", err, nil)
	text := fmt.Sprintf("#!/bin/sh\necho >>%[1]s/n\nif [ $(wc -l <%[1]s/n) -eq %[2]d ]; then kill -%[3]s $PPID; exit 1; fi\nexec %[4]s \"$@\"\n", bin, move, signal, mv)
	runtest.WantError(t, "write", os.WriteFile(filepath.Join(bin, "mv"), []byte(text), 0o700), nil) //nolint:gosec // a script
	c := exec.Command("sh", append([]string{filepath.Join(dir, "make-certs.sh")}, args...)...)      //nolint:gosec // of this test
	c.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err == nil {
		return false
	}
	if c.ProcessState.Success() {
		t.Errorf("run that was ended: %s", out)
	}
	return true
}
