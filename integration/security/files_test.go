package security

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// TestServerFiles compares the effective configurations with the promises of the guide.
func TestServerFiles(t *testing.T) {
	t.Parallel()
	d := install(t)
	const cluster = 10 * time.Second
	for file, synced := range map[string]time.Duration{"server.conf": 0, "cluster/s1.conf": cluster, "cluster/s2.conf": cluster, "cluster/s3.conf": cluster} {
		opts, err := server.ProcessConfigFile(filepath.Join(d.dir, file))
		runtest.WantError(t, file, err, nil)
		if runtest.Equal(t, file+": fsync on every write", opts.SyncAlways, synced == 0); synced > 0 {
			runtest.Equal(t, file+": fsync", opts.SyncInterval, synced)
		}
		runtest.Equal(t, file+": largest message", opts.MaxPayload, 1<<20)
		runtest.Equal(t, file+": users by certificate", opts.TLSMap, true)
		runtest.Equal(t, file+": monitoring", opts.HTTPHost, "127.0.0.1")
		runtest.Equal(t, file+": system account", opts.SystemAccount, "SYS")
		runtest.Equal(t, file+": users without permissions", len(opts.Users)-withPermissions(opts), 1) // that of the system account
		for _, u := range opts.Users {
			runtest.Equal(t, file+": password of "+u.Username, u.Password, "")
		}
	}
}

func withPermissions(opts *server.Options) (n int) {
	for _, u := range opts.Users {
		if u.Permissions != nil && u.Permissions.Publish != nil && u.Permissions.Subscribe != nil {
			n++
		}
	}
	return n
}

// TestSystemdUnits has systemd check the units, without a complaint.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, map[string]string{"systemd-analyze": "systemd"}, "systemd-analyze")
	dir := t.TempDir()
	program := regexp.MustCompile(`/usr/local/bin/[a-z-]+`) // not installed here
	for _, name := range []string{"nats-server@cluster-s1.service", "lash-node@acme.service", "lash-reader@acme.service"} {
		template := regexp.MustCompile(`@.*\.`).ReplaceAllString(name, "@.")
		data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "nats", "systemd", template))
		runtest.WantError(t, "read", err, nil)
		unit := filepath.Join(dir, name)
		runtest.WantError(t, "write", os.WriteFile(unit, program.ReplaceAll(data, []byte("/bin/true")), 0o600), nil)
		out, err := exec.CommandContext(harness.Context(t), "systemd-analyze", "verify", "--man=no", unit).CombinedOutput() //nolint:gosec // it is the test's own
		runtest.WantError(t, name, err, nil)
		runtest.Equal(t, name, string(out), "")
	}
}
