package security

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

// TestCertificatesAtOnce makes the authorities, and then a user's certificate, by several runs at the same time. One run
// makes the authorities, and the others refuse. Every certificate belongs to its key.
func TestCertificatesAtOnce(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("needs openssl")
	}
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
		harness.WantError(t, "certificate and key of "+name, err, nil)
	}
	harness.Equal(t, "runs that make the authorities", atOnce("authorities"), 1)
	pair("clients-ca")
	pair("routes-ca")
	for range 3 {
		harness.Equal(t, "runs that make the user's certificate", atOnce("user", "node@acme"), 6)
		pair("node-at-acme")
	}
	d.noRemains()
	_, err := os.Stat(d.certs("lock"))
	harness.Equal(t, "the lock is gone", errors.Is(err, fs.ErrNotExist), true)
}

// TestCertificatesOfDeadRun has the lock of a run that was killed: the next one refuses, names the lock, and changes nothing.
func TestCertificatesOfDeadRun(t *testing.T) {
	t.Parallel()
	d := install(t)
	harness.WantError(t, "lock", os.MkdirAll(d.certs("lock"), 0o700), nil)
	before := filesBelow(t, d.certs(""))
	run := exec.Command("sh", filepath.Join(d.dir, "make-certs.sh"), "authorities") //nolint:gosec // of this test
	run.Env = append(os.Environ(), "LOCK_SECONDS=0")
	out, err := run.CombinedOutput()
	harness.Equal(t, "exit code", run.ProcessState.ExitCode(), 1)
	if !strings.Contains(string(out), "if none does, remove "+d.certs("lock")) {
		t.Errorf("got %v, %s, want the lock named", err, out)
	}
	harness.Equal(t, "files", filesBelow(t, d.certs("")), before)
}
