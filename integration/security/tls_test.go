package security

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestTLS identifies users by their certificates, and refuses a connection without one.
func TestTLS(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	d.conn("node@acme")
	other := newAuthority(t, filepath.Join(t.TempDir(), "other-ca.pem"))
	outsider := filepath.Join(t.TempDir(), "stranger")
	other.issue(outsider, "node@acme")
	unknownUser := filepath.Join(t.TempDir(), "nobody")
	d.clients.issue(unknownUser, "nobody@acme")
	trusted := nats.RootCAs(d.clients.pem)
	for name, opts := range map[string][]nats.Option{
		"another_authority_of_the_client": {trusted, nats.ClientCert(outsider+".pem", outsider+".key")},
		"another_authority_of_the_server": append(d.access("node@acme")[1:], nats.RootCAs(other.pem)),
		"no_certificate":                  {trusted},
		"no_user_of_that_name":            {trusted, nats.ClientCert(unknownUser+".pem", unknownUser+".key")},
		"a_name_without_its_certificate":  {trusted, nats.UserInfo("node@acme", "")},
		"a_certificate_of_a_server":       {trusted, nats.ClientCert(d.certs("server.pem"), d.certs("server.key"))},
		"an_old_version":                  append(d.access("node@acme"), nats.Secure(&tls.Config{MaxVersion: tls.VersionTLS12})),
	} {
		if nc, err := nats.Connect(d.ns.ClientURL(), opts...); err == nil {
			nc.Close()
			t.Errorf("%s: connected", name)
		}
	}
	// A name that is sent in addition to the certificate is ignored.
	nc := d.conn("host@acme", nats.UserInfo("node@acme", ""), nats.ErrorHandler(new(bustest.Refusals).Handler))
	runtest.NoError(t, nc.Publish("lash.work.turn.s1.t1", nil))
	runtest.WantError(t, "flush", nc.Flush(), nil)
	runtest.WantError(t, "permission", nc.LastError(), nats.ErrPermissionViolation)
}

// cluster starts the three servers of cluster/, each installed by itself.
func (d *deployment) cluster() (urls string, all []*server.Server) {
	d.t.Helper()
	ports, err := busembed.FreePorts(3)
	runtest.NoError(d.t, err)
	var routes []*url.URL
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	var list []string
	for i, port := range ports {
		opts := d.options(fmt.Sprintf("cluster/s%d.conf", i+1))
		if len(opts.Routes) != 3 || opts.Cluster.Name != "lash" || opts.Cluster.TLSConfig == nil {
			d.t.Errorf("s%d: got %d routes in %q", i+1, len(opts.Routes), opts.Cluster.Name)
		}
		opts.StoreDir = filepath.Join(d.dir, "store", opts.ServerName) // they share a machine here
		opts.Cluster.Host, opts.Cluster.Port, opts.Routes = "127.0.0.1", port, routes
		ns := d.start(opts)
		all, list = append(all, ns), append(list, ns.ClientURL())
	}
	d.ns = all[0]
	return strings.Join(list, ","), all
}

// TestClusterFiles runs a turn on the three servers of cluster/, and one more after the loss of a server.
func TestClusterFiles(t *testing.T) {
	t.Parallel()
	d := install(t)
	urls, all := d.cluster()
	cfg := d.config("node@acme")
	cfg.URL, cfg.Replicas = urls, 3
	b := &harness.System{T: t, Ctx: harness.Context(t), Model: &harness.Model{T: t, Script: []harness.Step{harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two"))}}}
	b.Bus = d.open(bus.Open, cfg)
	n, _ := b.StartNodeOn(b.Bus)
	b.Host = n.Host()
	b.Open(api.CreateRequest{ID: "s1"})
	b.RunTurn("s1", "t1", harness.Text("hello"))
	all[2].Shutdown()
	b.RunTurn("s1", "t2", harness.Text("hello again"))
	runtest.EqualLists(t, "messages", b.Messages("s1"), []string{"user hello", "assistant one", "user hello again", "assistant two"})
}

// TestRouteTakesNoClient connects to the cluster port with a tenant's certificate.
func TestRouteTakesNoClient(t *testing.T) {
	t.Parallel()
	d := install(t)
	_, all := d.cluster()
	base := d.certs("mine")
	d.clients.issue(base, "node@acme")
	for name, accepted := range map[string]bool{base: false, d.certs("route"): true} {
		cert, err := tls.LoadX509KeyPair(name+".pem", name+".key")
		runtest.WantError(t, "certificate", err, nil)
		runtest.WantError(t, filepath.Base(name)+" as a route", routes(all[0], cert), map[bool]error{false: errRefused, true: nil}[accepted])
	}
}

var errRefused = errors.New("the server hung up")

// routes speaks to a server as another server would.
func routes(ns *server.Server, cert tls.Certificate) error {
	//nolint:gosec // it is the server that must mind
	secret, err := tls.Dial("tcp", ns.ClusterAddr().String(), &tls.Config{Certificates: []tls.Certificate{cert}, InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer secret.Close()                                       //nolint:errcheck // a request only
	if _, err = secret.Write([]byte("PING\r\n")); err == nil { // a client's certificate is checked after its handshake
		_, err = secret.Read(make([]byte, 1))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}

// TestMakeCerts makes the files' certificates with openssl, and connects with them.
func TestMakeCerts(t *testing.T) {
	t.Parallel()
	runtest.Tools(t, nil, "openssl")
	d := install(t)
	runtest.WantError(t, "remove", os.RemoveAll(d.certs("")), nil)
	for _, args := range [][]string{{"authorities"}, {"server", "localhost", "127.0.0.1"}, {"user", "node@acme"}} {
		run(t, d.dir, "make-certs.sh", args...)
	}
	if out, err := script(d.dir, "make-certs.sh", "authorities"); err == nil {
		t.Errorf("authorities were made again: %s", out)
	}
	d.ns = d.start(d.options("server.conf"))
	base := d.certs("node-at-acme")
	nc, err := nats.Connect(d.ns.ClientURL(), nats.RootCAs(d.certs("clients-ca.pem")), nats.ClientCert(base+".pem", base+".key"))
	runtest.NoError(t, err)
	nc.Close()
	info, err := os.Stat(base + ".key")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v, want it for its owner only", info.Mode(), err)
	}
}

// TestUserFiles makes the users' files again without a difference, and a new tenant that works.
func TestUserFiles(t *testing.T) {
	t.Parallel()
	d := install(t)
	role := map[string]string{"node": "node", "host": "host", "alice": "host", "auditor": "auditor", "backup": "backup", "reader": "reader"}
	for _, tenant := range []string{"acme", "globex"} {
		files, err := filepath.Glob(filepath.Join(d.dir, "tenants", tenant, "*.conf"))
		runtest.WantError(t, "glob", err, nil)
		for _, file := range files {
			before, err := os.ReadFile(file)
			runtest.WantError(t, "read", err, nil)
			name := strings.TrimSuffix(filepath.Base(file), ".conf")
			if name == "exports" || name == "imports" || name == "audits" {
				template, err := os.ReadFile(filepath.Join(d.dir, "roles", name+".conf"))
				runtest.WantError(t, "template", err, nil)
				runtest.Equal(t, tenant+"/"+name, string(before), strings.ReplaceAll(string(template), "%TENANT%", tenant))
				continue
			}
			if name == "of-plugins" || name == "plugins" {
				run(t, d.dir, "add-plugin.sh", tenant)
			} else {
				run(t, d.dir, "add-user.sh", tenant, role[name], name)
			}
			after, err := os.ReadFile(file)
			runtest.WantError(t, "read", err, nil)
			runtest.Equal(t, tenant+"/"+name, string(after), string(before))
		}
	}
	line := run(t, d.dir, "add-tenant.sh", "initech")
	accounts := filepath.Join(d.dir, "accounts.conf")
	data, err := os.ReadFile(accounts)
	runtest.WantError(t, "read", err, nil)
	data = []byte(strings.Replace(string(data), "  include ./tenants/acme.conf\n", "  include ./tenants/acme.conf\n"+line, 1))
	runtest.WantError(t, "write", os.WriteFile(accounts, data, 0o600), nil)
	b := d.boot().bundleOf("node@initech", harness.Reply(harness.Text("welcome")))
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	runtest.Equal(t, "turn", b.RunTurn("s1", "t1", harness.Text("hello")).Text, "welcome")
	if out, err := script(d.dir, "add-user.sh", "acme", "host", "a/b"); err == nil {
		t.Errorf("a user named a/b was made: %s", out)
	}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	out, err := script(dir, name, args...)
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return out
}

func script(dir, name string, args ...string) (string, error) {
	out, err := exec.Command("sh", append([]string{filepath.Join(dir, name)}, args...)...).CombinedOutput()
	return string(out), err
}
