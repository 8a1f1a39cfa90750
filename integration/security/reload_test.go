package security

import (
	"bytes"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// reload has the server read its files again, as systemctl reload does.
func (d *deployment) reload() {
	d.t.Helper()
	opts := d.options("server.conf")
	opts.Port = d.ns.Addr().(*net.TCPAddr).Port
	runtest.WantError(d.t, "reload", d.ns.ReloadOptions(opts), nil)
}

// edit replaces a text in one of the files.
func (d *deployment) edit(file, from, to string) {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(d.dir, file))
	runtest.WantError(d.t, "read", err, nil)
	if !strings.Contains(string(data), from) {
		d.t.Fatalf("%s: it has no %q", file, from)
	}
	runtest.WantError(d.t, "write", os.WriteFile(filepath.Join(d.dir, file), []byte(strings.Replace(string(data), from, to, 1)), 0o600), nil)
}

// TestReload changes users, tenants and certificates of a running server. Removed users are disconnected, new ones
// connect, and the others are unaffected.
func TestReload(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	b.RunTurn("s1", "t1", harness.Text("hello"))
	stays, leaves := d.conn("host@acme"), d.conn("alice@acme", nats.NoReconnect())
	closed := leaves.StatusChanged(nats.CLOSED)

	d.edit("tenants/acme.conf", `    { user: "alice@acme", permissions: { include ./acme/alice.conf } }`+"\n", "")
	d.edit("accounts.conf", "  include ./tenants/acme.conf\n", "  include ./tenants/acme.conf\n"+run(t, d.dir, "add-tenant.sh", "initech"))
	old, err := os.ReadFile(d.certs("server.pem"))
	runtest.WantError(t, "read", err, nil)
	d.clients.issue(d.certs("server"), "")
	next := newAuthority(t, d.certs("next-ca.pem"))
	added, err := os.ReadFile(next.pem)
	runtest.WantError(t, "read", err, nil)
	trusted, err := os.ReadFile(d.clients.pem)
	runtest.WantError(t, "read", err, nil)
	runtest.WantError(t, "write", os.WriteFile(d.clients.pem, append(trusted, added...), 0o600), nil)
	d.reload()
	d.reload() // which subscribes to what new accounts import

	harness.Receive(b, "end of the connection of who was taken out", closed)
	if nc, err := nats.Connect(d.ns.ClientURL(), d.access("alice@acme")...); err == nil {
		nc.Close()
		t.Error("who was taken out: connected again")
	}
	newcomer := d.bundleOf("node@initech", harness.Reply(harness.Text("welcome")))
	newcomer.StartNode()
	newcomer.Open(api.CreateRequest{ID: "s1"})
	runtest.Equal(t, "turn of a new tenant", newcomer.RunTurn("s1", "t1", harness.Text("hello")).Text, "welcome")

	m, err := d.conn("host@initech").RequestWithContext(b.Ctx, "$JS.API.STREAM.INFO.lash-s-s1", nil)
	runtest.WantError(t, "client of a new tenant", err, nil)
	runtest.Equal(t, "the client finds the store", bytes.Contains(m.Data, []byte(`"created"`)), true)

	base := d.certs("host-of-next")
	next.issue(base, "host@acme")
	nc, err := nats.Connect(d.ns.ClientURL(), nats.RootCAs(d.clients.pem), nats.ClientCert(base+".pem", base+".key"))
	if err != nil {
		t.Fatalf("a certificate of the new authority: %v", err)
	}
	defer nc.Close()
	state, err := nc.TLSConnectionState()
	runtest.WantError(t, "state", err, nil)
	shown := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: state.PeerCertificates[0].Raw})
	runtest.Equal(t, "the server shows its old certificate", bytes.Equal(shown, old), false)

	runtest.Equal(t, "turn of who stays", b.RunTurn("s1", "t2", harness.Text("again")).Text, "two")
	runtest.WantError(t, "who stays", stays.Flush(), nil)
	runtest.Equal(t, "reconnects", stays.Stats().Reconnects+b.Bus.Conn().Stats().Reconnects, 0)
}
