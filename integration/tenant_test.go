package integration

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// tenants are two bundles on one server, each with a session s1 in which one turn was run.
func tenants(t *testing.T, d *deployment) (acme, globex *bundle) {
	t.Helper()
	acme = d.bundleOf("node@acme", reply(text("of acme")), reply(text("more of acme")))
	globex = d.bundleOf("node@globex", reply(text("of globex")))
	for _, b := range []*bundle{acme, globex} {
		b.node()
		b.open(api.CreateRequest{ID: "s1"})
		b.run("s1", "t1", text("hello"))
	}
	acme.open(api.CreateRequest{ID: "only-acme"})
	return acme, globex
}

// TestTenantsShareNothing has two tenants use the same names.
func TestTenantsShareNothing(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	acme, globex := tenants(t, d)
	equalLists(t, "acme", acme.messages("s1"), []string{"user hello", "assistant of acme"})
	equalLists(t, "globex", globex.messages("s1"), []string{"user hello", "assistant of globex"})
	for id, err := range globex.bus.Sessions(globex.ctx) {
		must(t, "sessions", err, nil)
		equal(t, "session of globex", id, "s1")
	}
	_, err := globex.State(globex.ctx, "only-acme")
	must(t, "a guessed session", err, events.ErrNoSession)
	ref, err := acme.bus.PutBlob(acme.ctx, []byte("of acme"))
	must(t, "put blob", err, nil)
	_, err = globex.bus.Blob(globex.ctx, ref)
	must(t, "a guessed blob", err, bus.ErrNotFound)
	_, err = globex.bus.Ask(globex.ctx, "w-acme", nil)
	must(t, "a guessed worker", err, bus.ErrNotFound)
	guessed := bus.WakeKey{Class: bus.ClassTask, Session: "only-acme", Task: "t9"}
	must(t, "wake", globex.bus.PublishWake(guessed, bus.WakeHint{}), nil)
	must(t, "flush", globex.bus.Conn().Flush(), nil)
	equal(t, "a guessed wake is in the other's queue", acme.wakes()[guessed], false)
}

// TestTenantHearsNothing has one tenant listen to all that any of its roles may,
// and ask for all that exists, while another runs a turn.
func TestTenantHearsNothing(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	acme, globex := tenants(t, d)
	spy := d.conn("node@globex", nats.ErrorHandler(new(refusals).handler))
	heard := make(chan *nats.Msg, 1024)
	for row := range maySubscribe() {
		if _, err := spy.ChanSubscribe(row, heard); err != nil { // those of other roles are refused
			t.Fatal(err)
		}
	}
	must(t, "flush", spy.Flush(), nil)
	acme.run("s1", "t2", text("secret"))
	_, err := acme.bus.Conn().RequestWithContext(acme.ctx, "$JS.API.INFO", nil) // its answer goes to an inbox of the same name
	must(t, "ask", err, nil)
	// What the globex node itself does comes last, and is all that is heard.
	must(t, "own", spy.Publish("lash.api.own", []byte("own")), nil)
	for {
		m := receive(globex, "its own message", heard)
		if string(m.Data) == "own" {
			break
		}
		if strings.Contains(string(m.Data), "acme") || bytes.Contains(m.Data, []byte("secret")) || strings.Contains(m.Subject, "acme") {
			t.Errorf("heard %s: %s", m.Subject, m.Data)
		}
	}
	if _, err := spy.RequestWithContext(acme.ctx, "$JS.API.STREAM.INFO.lash-s-only-acme", nil); err != nil {
		t.Fatal(err)
	}
	names, err := spy.RequestWithContext(acme.ctx, "$JS.API.STREAM.NAMES", nil)
	must(t, "names", err, nil)
	if bytes.Contains(names.Data, []byte("only-acme")) {
		t.Errorf("names: got %s, want none of acme's", names.Data)
	}
	spy.Close() // which heard discovery, and would not have answered
	found, err := d.conn("node@globex").RequestWithContext(acme.ctx, "$SRV.INFO", nil)
	must(t, "discovery", err, nil)
	if own := find[*events.TurnStarted](globex, "s1")[0].Worker; !bytes.Contains(found.Data, []byte(own)) {
		t.Errorf("discovery: got %s, want the own node", found.Data)
	}
}

// TestNoisyTenant has one tenant reach its limits, of streams and of bytes; another does not notice.
func TestNoisyTenant(t *testing.T) {
	t.Parallel()
	d := install(t)
	file := filepath.Join(d.dir, "tenants", "globex.conf")
	data, err := os.ReadFile(file)
	must(t, "read", err, nil)
	small := strings.NewReplacer("max_streams: 2000", "max_streams: 20", "max_file: 20GB", "max_file: 4MB").Replace(string(data))
	must(t, "write", os.WriteFile(file, []byte(small), 0o600), nil)
	acme, globex := tenants(t, d.boot())
	refused := false
	for i := 0; i < 20 && !refused; i++ {
		_, err := globex.Create(globex.ctx, api.CreateRequest{})
		refused = err != nil
	}
	if !refused {
		t.Error("streams: got more than 20, want the limit")
	}
	once, cancel := context.WithTimeout(globex.ctx, time.Second) // a full store may be emptied: it is tried again until then
	defer cancel()
	if _, err := globex.bus.PutBlob(once, bytes.Repeat([]byte("x"), 8<<20)); err == nil {
		t.Error("bytes: got 8 MiB into 4 MB, want the limit")
	}
	acme.run("s1", "t2", text("still here"))
	_, err = acme.bus.PutBlob(acme.ctx, bytes.Repeat([]byte("x"), 8<<20))
	must(t, "the other's blob", err, nil)
	acme.open(api.CreateRequest{ID: "another"})
}
