package integration

import (
	"bytes"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/session/api"
)

// reload has the server read its files again, as systemctl reload does.
func (d *deployment) reload() {
	d.t.Helper()
	opts := d.options("server.conf")
	opts.Port = d.ns.Addr().(*net.TCPAddr).Port
	must(d.t, "reload", d.ns.ReloadOptions(opts), nil)
}

// edit replaces a text in one of the files.
func (d *deployment) edit(file, from, to string) {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, file))
	must(d.t, "read", err, nil)
	if !strings.Contains(string(data), from) {
		d.t.Fatalf("%s: it has no %q", file, from)
	}
	must(d.t, "write", os.WriteFile(filepath.Join(d.dir, file), []byte(strings.Replace(string(data), from, to, 1)), 0o600), nil)
}

// TestReload changes users, tenants and certificates of a server that runs: who
// is taken out is cut off, who is new comes in, and the others notice nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", reply(text("one")), reply(text("two")))
	b.node()
	b.open(api.CreateRequest{ID: "s1"})
	b.run("s1", "t1", text("hello"))
	stays, leaves := d.conn("host@acme"), d.conn("alice@acme", nats.NoReconnect())
	gone := leaves.StatusChanged(nats.CLOSED)

	d.edit("tenants/acme.conf", `    { user: "alice@acme", permissions: { include ./acme/alice.conf } }`+"\n", "")
	d.edit("accounts.conf", "  include ./tenants/acme.conf\n", "  include ./tenants/acme.conf\n"+run(t, d.dir, "add-tenant.sh", "initech"))
	old, err := os.ReadFile(d.certs("server.pem"))
	must(t, "read", err, nil)
	d.clients.issue(d.certs("server"), "")
	next := newAuthority(t, d.certs("next-ca.pem"))
	added, err := os.ReadFile(next.pem)
	must(t, "read", err, nil)
	trusted, err := os.ReadFile(d.clients.pem)
	must(t, "read", err, nil)
	must(t, "write", os.WriteFile(d.clients.pem, append(trusted, added...), 0o600), nil)
	d.reload()

	receive(b, "end of the connection of who was taken out", gone)
	if nc, err := nats.Connect(d.ns.ClientURL(), d.access("alice@acme")...); err == nil {
		nc.Close()
		t.Error("who was taken out: connected again")
	}
	newcomer := d.bundleOf("node@initech", reply(text("welcome")))
	newcomer.node()
	newcomer.open(api.CreateRequest{ID: "s1"})
	equal(t, "turn of a new tenant", newcomer.run("s1", "t1", text("hello")).Text, "welcome")

	base := d.certs("host-of-next")
	next.issue(base, "host@acme")
	nc, err := nats.Connect(d.ns.ClientURL(), nats.RootCAs(d.clients.pem), nats.ClientCert(base+".pem", base+".key"))
	if err != nil {
		t.Fatalf("a certificate of the new authority: %v", err)
	}
	defer nc.Close()
	state, err := nc.TLSConnectionState()
	must(t, "state", err, nil)
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
	equal(t, "the server shows its old certificate", bytes.Equal(shown, old), false)

	equal(t, "turn of who stays", b.run("s1", "t2", text("again")).Text, "two")
	must(t, "who stays", stays.Flush(), nil)
	equal(t, "reconnects", stays.Stats().Reconnects+b.bus.Conn().Stats().Reconnects, 0)
}
