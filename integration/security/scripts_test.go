package security

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

// TestScriptsRefuse calls the scripts with arguments that are missing, too many or wrong: each exits with 2 before
// it writes anything. A server reads an empty file of permissions as permission for everything.
func TestScriptsRefuse(t *testing.T) {
	t.Parallel()
	d := install(t)
	complete := map[string][]string{
		"add-user.sh": {"acme", "host", "zoe"}, "add-tenant.sh": {"initech"}, "make-certs.sh": {"user", "node@acme"},
	}
	before := filesBelow(t, d.dir)
	refused := func(want, name string, args ...string) {
		t.Helper()
		out, err := script(d.dir, name, args...)
		if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(out, want) {
			t.Errorf("%s %q: got %v, %q, want exit code 2 and %q", name, args, err, out, want)
		}
	}
	refused("usage: ./add-plugin.sh", "add-plugin.sh")
	refused("usage: ./add-plugin.sh", "add-plugin.sh", "acme", "weather", "more")
	for _, name := range []string{"", "a/b", "..", "a.b", "*"} {
		refused("only A-Z", "add-plugin.sh", "acme", name)
		refused("only A-Z", "add-plugin.sh", name)
	}
	refused("newtenant: is no tenant", "add-plugin.sh", "newtenant", "weather")
	for _, tenant := range []string{"acme-clients", "acme-plugin-weather"} { // accounts of acme
		refused(tenant+": is the name of another tenant's account", "add-tenant.sh", tenant)
	}
	for name, args := range complete {
		for n := range args {
			refused("usage: ./"+name, name, args[:n]...)
		}
		refused("usage: ./"+name, name, append(args, "more")...)
	}
	for _, role := range []string{"hots", "", "exports", "imports", "../tenants/acme/node", "host.conf"} {
		refused("is no role: want node, backup, host or auditor", "add-user.sh", "acme", role, "zoe")
		refused("is no role", "add-user.sh", "newtenant", role, "zoe")
		refused("is no role", "add-user.sh", "acme", role, "alice") // users with a file
	}
	for _, name := range []string{"exports", "imports", "of-plugins", "plugins", "plugin-weather", "", "a/b", ".."} {
		refused(name, "add-user.sh", "acme", "host", name)
	}
	for _, tenant := range []string{"acm", "newtenant", "ACME", "acme-clients"} {
		for _, role := range []string{"node", "backup", "host", "auditor"} {
			refused(tenant+": is no tenant: want one of acme globex, or one that add-tenant.sh makes", "add-user.sh", tenant, role, "zoe")
		}
	}
	refused("usage", "make-certs.sh", "server")
	refused("usage", "make-certs.sh", "usr", "node@acme")
	harness.Equal(t, "files", filesBelow(t, d.dir), before)

	harness.WantError(t, "remove a role", os.Remove(filepath.Join(d.dir, "roles", "host.conf")), nil)
	if out, err := script(d.dir, "add-user.sh", "acme", "host", "zoe"); err == nil {
		t.Errorf("without the role's file: got %s, want an error", out)
	}
	if out, err := script(d.dir, "add-tenant.sh", "initech"); err == nil {
		t.Errorf("a tenant without the role's file: got %s, want an error", out)
	}
	for _, file := range []string{"acme/zoe.conf", "acme/zoe.conf.new", "initech.conf", "initech.conf.new", "initech/host.conf", "acme/plugins.conf.new"} {
		if _, err := os.Stat(filepath.Join(d.dir, "tenants", file)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want no such file", file, err)
		}
	}
}

// filesBelow are the files below a directory, with their contents, as text.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	harness.WantError(t, "walk", filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data, _ := os.ReadFile(path) // of a directory there is its name
		_, err = all.WriteString(path + "\n" + string(data) + "\n")
		return err
	}), nil)
	return all.String()
}
