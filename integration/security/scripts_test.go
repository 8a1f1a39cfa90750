package security

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// TestScriptsRefuse calls the scripts with arguments that are missing, too many or wrong: each exits with 2 before
// it writes anything. A server reads an empty file of permissions as permission for everything.
func TestScriptsRefuse(t *testing.T) {
	t.Parallel()
	d := install(t)
	complete := map[string][]string{
		"add-user.sh": {"acme", "host", "zoe"}, "add-tenant.sh": {"initech"}, "update-tenant.sh": {"acme"}, "make-certs.sh": {"user", "node@acme"},
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
	for _, tenant := range []string{"acme-clients", "acme-auditors", "acme-plugin-weather"} { // accounts of acme
		refused(tenant+": is the name of another tenant's account", "add-tenant.sh", tenant)
	}
	for name, args := range complete {
		for n := range args {
			refused("usage: ./"+name, name, args[:n]...)
		}
		refused("usage: ./"+name, name, append(args, "more")...)
	}
	for _, role := range []string{"hots", "", "exports", "imports", "audits", "../tenants/acme/node", "host.conf"} {
		refused("is no role: want node, backup, reader, host or auditor", "add-user.sh", "acme", role, "zoe")
		refused("is no role", "add-user.sh", "newtenant", role, "zoe")
		refused("is no role", "add-user.sh", "acme", role, "alice") // users with a file
	}
	for _, name := range []string{"exports", "imports", "audits", "of-plugins", "plugins", "plugin-weather", "", "a/b", ".."} {
		refused(name, "add-user.sh", "acme", "host", name)
	}
	for _, tenant := range []string{"acm", "newtenant", "ACME", "acme-clients"} {
		for _, role := range []string{"node", "backup", "reader", "host", "auditor"} {
			refused(tenant+": is no tenant: want one of acme globex, or one that add-tenant.sh makes", "add-user.sh", tenant, role, "zoe")
		}
	}
	for _, tenant := range []string{"acm", "acme-clients", "acme/node"} {
		refused(tenant, "update-tenant.sh", tenant)
	}
	refused("usage", "make-certs.sh", "server")
	refused("usage", "make-certs.sh", "usr", "node@acme")
	refused("usage", "make-certs.sh", "user", "clients-ca")
	for _, name := range []string{"a@x,email:node@acme", "../a@acme", "a@b\nc=d", "a-at-b@c", "@acme", "node@", "a@b@c", "a b@acme"} {
		refused("want NAME@TENANT", "make-certs.sh", "user", name)
	}
	runtest.Equal(t, "files", filesBelow(t, d.dir), before)

	runtest.WantError(t, "remove a role", os.Remove(filepath.Join(d.dir, "roles", "host.conf")), nil)
	if out, err := script(d.dir, "add-user.sh", "acme", "host", "zoe"); err == nil {
		t.Errorf("without the role's file: got %s, want an error", out)
	}
	if out, err := script(d.dir, "add-tenant.sh", "initech"); err == nil {
		t.Errorf("a tenant without the role's file: got %s, want an error", out)
	}
	for _, file := range []string{"acme/zoe.conf", "initech.conf", "initech/host.conf"} {
		_, err := os.Stat(filepath.Join(d.dir, "tenants", file))
		runtest.WantError(t, file, err, fs.ErrNotExist)
	}
	d.noRemains()
}

// noRemains fails for files that the scripts write before they rename them.
func (d *deployment) noRemains() {
	d.t.Helper()
	for _, dir := range []string{"tenants", "certs"} {
		err := filepath.WalkDir(filepath.Join(d.dir, dir), func(path string, entry fs.DirEntry, err error) error {
			if ending := filepath.Ext(path); err == nil && !entry.IsDir() && ending != ".conf" && ending != ".pem" && ending != ".key" || entry.IsDir() && ending != "" {
				d.t.Errorf("got %s, want none left", path)
			}
			return err
		})
		runtest.WantError(d.t, "walk", err, nil)
	}
}

// TestScriptsAtOnce runs scripts of one tenant at the same time. Each file is whole at every moment, and has the mode that
// it had; the lists have every plugin; nothing else is left.
func TestScriptsAtOnce(t *testing.T) {
	t.Parallel()
	d := install(t)
	whole := strings.ReplaceAll(harness.ReadFile(t, filepath.Join(d.dir, "roles", "host.conf")), "%NAME%", "alice")
	alice := filepath.Join(d.dir, "tenants", "acme", "alice.conf")
	runtest.WantError(t, "chmod", os.Chmod(alice, 0o640), nil)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			if out, err := script(d.dir, "add-plugin.sh", "acme", name); err != nil {
				t.Errorf("plugin %s: %v, %s", name, err, out)
			}
		})
		all.Go(func() {
			if out, err := script(d.dir, "add-user.sh", "acme", "host", "alice"); err != nil {
				t.Errorf("user: %v, %s", err, out)
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		if got := harness.ReadFile(t, alice); got != whole {
			t.Fatalf("alice's file: got %q, want it whole", got)
		}
	}
	info, err := os.Stat(alice)
	runtest.WantError(t, "mode", err, nil)
	runtest.Equal(t, "mode", info.Mode().Perm(), 0o640)
	for _, list := range []string{"exports", "of-plugins", "plugins"} {
		text := harness.ReadFile(t, filepath.Join(d.dir, "tenants", "acme", list+".conf"))
		for _, name := range names {
			if !strings.Contains(text, "plugin-"+name) {
				t.Errorf("%s: got %s, want plugin %s", list, text, name)
			}
		}
	}
	d.noRemains()
	d.boot() // which accepts them
}

// TestScriptsFollowNoLink has links at each name that a script could write to before it renames, and at the names that it
// replaces. Where they point stays as it was, and a file that did not exist gets the mode of new files.
func TestScriptsFollowNoLink(t *testing.T) {
	t.Parallel()
	d := install(t)
	acme, mine := filepath.Join(d.dir, "tenants", "acme"), filepath.Join(t.TempDir(), "mine")
	runtest.WantError(t, "write", os.WriteFile(mine, []byte("mine"), 0o600), nil)
	for _, name := range []string{"zoe", "plugin-weather", "exports", "of-plugins", "plugins", "imports"} {
		for _, ending := range []string{".conf.new", ".conf.tmp", ".new"} {
			runtest.WantError(t, "link", os.Symlink(mine, filepath.Join(acme, name+ending)), nil)
		}
	}
	runtest.WantError(t, "link", os.Symlink(mine, filepath.Join(acme, "zoe.conf")), nil)
	run(t, d.dir, "add-user.sh", "acme", "host", "zoe")
	run(t, d.dir, "add-user.sh", "acme", "host", "yan")
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	run(t, d.dir, "update-tenant.sh", "acme")
	runtest.Equal(t, "the file behind the links", harness.ReadFile(t, mine), "mine")
	fresh := filepath.Join(acme, "fresh")
	runtest.WantError(t, "write", os.WriteFile(fresh, nil, 0o666), nil) //nolint:gosec // its mode shows the umask
	want, err := os.Stat(fresh)
	runtest.WantError(t, "mode", err, nil)
	for _, name := range []string{"yan.conf", "plugin-weather.conf"} {
		info, err := os.Lstat(filepath.Join(acme, name))
		runtest.WantError(t, "mode", err, nil)
		runtest.Equal(t, "mode of "+name, info.Mode(), want.Mode())
	}
}

// filesBelow are the files below a directory, with their contents, as text.
func filesBelow(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	runtest.WantError(t, "walk", filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		data, _ := os.ReadFile(path) // of a directory there is its name
		_, err = all.WriteString(path + "\n" + string(data) + "\n")
		return err
	}), nil)
	return all.String()
}

// TestUpdateTenant has the permissions of an earlier version: update-tenant.sh writes those of this one, for every user
// and plugin, and leaves the tenant's own file.
func TestUpdateTenant(t *testing.T) {
	t.Parallel()
	d := install(t)
	run(t, d.dir, "add-plugin.sh", "acme", "weather")
	want := filesBelow(t, d.dir)
	files, err := filepath.Glob(filepath.Join(d.dir, "tenants", "acme", "*.conf"))
	runtest.WantError(t, "files", err, nil)
	for _, file := range files {
		data, err := os.ReadFile(file)
		runtest.WantError(t, "read", err, nil)
		first, _, _ := strings.Cut(string(data), "\n")
		runtest.WantError(t, "an earlier file", os.WriteFile(file, []byte(first+"\npublish { allow: [] }\n"), 0o600), nil)
	}
	runtest.Equal(t, "changed", filesBelow(t, d.dir) != want, true)
	run(t, d.dir, "update-tenant.sh", "acme")
	runtest.Equal(t, "files", filesBelow(t, d.dir), want)
}

// TestCertificatesAreReplacedWhole has a bundle of authorities whose first one is not the key's: a user's certificate and
// its key stay as they were, and the error says why. With the key's authority first both are replaced.
func TestCertificatesAreReplacedWhole(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, nil, "openssl")
	d, other := install(t), install(t)
	for _, dir := range []string{d.dir, other.dir} {
		run(t, dir, "make-certs.sh", "authorities")
	}
	run(t, d.dir, "make-certs.sh", "user", "node@acme")
	own, foreign := d.certs("clients-ca.pem"), other.certs("clients-ca.pem")
	bundle := func(files ...string) {
		var all []byte
		for _, file := range files {
			all = append(all, file...)
		}
		runtest.WantError(t, "write", os.WriteFile(own, all, 0o600), nil)
	}
	mine, err := os.ReadFile(own)
	runtest.WantError(t, "read", err, nil)
	theirs, err := os.ReadFile(foreign)
	runtest.WantError(t, "read", err, nil)
	before := filesBelow(t, d.certs(""))

	bundle(string(theirs), string(mine))
	out, err := script(d.dir, "make-certs.sh", "user", "node@acme")
	if err == nil || !strings.Contains(out, "clients-ca.key is not the key of the first certificate of certs/clients-ca.pem") {
		t.Errorf("with another authority first: got %v, %q", err, out)
	}
	bundle(string(mine))
	runtest.Equal(t, "files", filesBelow(t, d.certs("")), before)

	bundle(string(mine), string(theirs))
	run(t, d.dir, "make-certs.sh", "user", "node@acme")
	for _, ending := range []string{".pem", ".key"} {
		data, err := os.ReadFile(d.certs("node-at-acme" + ending))
		runtest.WantError(t, "read", err, nil)
		runtest.Equal(t, "the last one is there still: "+ending, strings.Contains(before, string(data)), false)
	}
}
