package security

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
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// tenants are two systems on one server, each with a session s1 in which one turn has run.
func tenants(t *testing.T, d *deployment) (acme, globex *harness.System) {
	t.Helper()
	acme = d.bundleOf("node@acme", harness.Reply(harness.Text("of acme")), harness.Reply(harness.Text("more of acme")))
	globex = d.bundleOf("node@globex", harness.Reply(harness.Text("of globex")))
	for _, b := range []*harness.System{acme, globex} {
		b.StartNode()
		b.Open(api.CreateRequest{ID: "s1"})
		b.RunTurn("s1", "t1", harness.Text("hello"))
	}
	acme.Open(api.CreateRequest{ID: "only-acme"})
	return acme, globex
}

// TestSmokeTenantsShareNothing has two tenants use the same names.
func TestSmokeTenantsShareNothing(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	acme, globex := tenants(t, d)
	runtest.EqualLists(t, "acme", acme.Messages("s1"), []string{"user hello", "assistant of acme"})
	runtest.EqualLists(t, "globex", globex.Messages("s1"), []string{"user hello", "assistant of globex"})
	for id, err := range globex.Bus.Sessions(globex.Ctx) {
		runtest.WantError(t, "sessions", err, nil)
		runtest.Equal(t, "session of globex", id, "s1")
	}
	_, err := globex.State(globex.Ctx, "only-acme")
	runtest.WantError(t, "a guessed session", err, events.ErrNoSession)
	ref, err := acme.Bus.PutBlob(acme.Ctx, []byte("of acme"))
	runtest.WantError(t, "put blob", err, nil)
	_, err = globex.Bus.Blob(globex.Ctx, ref)
	runtest.WantError(t, "a guessed blob", err, bus.ErrNotFound)
	_, err = globex.Bus.RequestWorker(globex.Ctx, "w-acme", nil)
	runtest.WantError(t, "a guessed worker", err, bus.ErrNoResponder)
	guessedKey := bus.WakeKey{Class: bus.ClassTask, Session: "only-acme", Task: "t9"}
	runtest.WantError(t, "wake", globex.Bus.PublishWake(guessedKey, bus.WakeHint{}), nil)
	runtest.WantError(t, "flush", globex.Bus.Conn().Flush(), nil)
	runtest.Equal(t, "a guessed wake is in the other's queue", acme.Wakes()[guessedKey], false)
}

// TestTenantReceivesNothingOfAnother has one tenant subscribe to everything that its roles may, and request everything that
// exists, while another runs a turn.
func TestTenantReceivesNothingOfAnother(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	acme, globex := tenants(t, d)
	spy := d.conn("node@globex", nats.ErrorHandler(new(bustest.Refusals).Handler))
	received := make(chan *nats.Msg, 1024)
	for row := range maySubscribe() {
		if _, err := spy.ChanSubscribe(row, received); err != nil { // those of other roles are refused
			t.Fatal(err)
		}
	}
	runtest.WantError(t, "flush", spy.Flush(), nil)
	acme.RunTurn("s1", "t2", harness.Text("secret"))
	_, err := acme.Bus.Conn().RequestWithContext(acme.Ctx, "$JS.API.INFO", nil) // its answer goes to an inbox of the same name
	runtest.WantError(t, "ask", err, nil)
	// The message of the globex node itself arrives last, and is the only one.
	runtest.WantError(t, "own", spy.Publish("lash.api.own", []byte("own")), nil)
	for {
		m := harness.Receive(globex, "its own message", received)
		if string(m.Data) == "own" {
			break
		}
		if strings.Contains(string(m.Data), "acme") || bytes.Contains(m.Data, []byte("secret")) || strings.Contains(m.Subject, "acme") {
			t.Errorf("heard %s: %s", m.Subject, m.Data)
		}
	}
	_, err = spy.RequestWithContext(acme.Ctx, "$JS.API.STREAM.INFO.lash-s-only-acme", nil)
	runtest.NoError(t, err)
	names, err := spy.RequestWithContext(acme.Ctx, "$JS.API.STREAM.NAMES", nil)
	runtest.WantError(t, "names", err, nil)
	if bytes.Contains(names.Data, []byte("only-acme")) {
		t.Errorf("names: got %s, want none of acme's", names.Data)
	}
	spy.Close() // which received discovery, and would not have responded
	found, err := d.conn("node@globex").RequestWithContext(acme.Ctx, "$SRV.INFO", nil)
	runtest.WantError(t, "discovery", err, nil)
	if own := harness.Find[*events.TurnStarted](globex, "s1")[0].Worker; !bytes.Contains(found.Data, []byte(own)) {
		t.Errorf("discovery: got %s, want the own node", found.Data)
	}
}

// TestNoisyTenant has one tenant reach its limits, of streams and of bytes; another is unaffected.
func TestNoisyTenant(t *testing.T) {
	t.Parallel()
	d := install(t)
	file := filepath.Join(d.dir, "tenants", "globex.conf")
	data, err := os.ReadFile(file)
	runtest.WantError(t, "read", err, nil)
	small := strings.NewReplacer("max_streams: 1300", "max_streams: 20", "max_file: 3GB", "max_file: 4MB").Replace(string(data))
	runtest.WantError(t, "write", os.WriteFile(file, []byte(small), 0o600), nil)
	acme, globex := tenants(t, d.boot())
	refused := false
	for i := 0; i < 20 && !refused; i++ {
		_, err := globex.Create(globex.Ctx, api.CreateRequest{})
		refused = err != nil
	}
	if !refused {
		t.Error("streams: got more than 20, want the limit")
	}
	once, cancel := context.WithTimeout(globex.Ctx, time.Second) // a full store may be emptied: it is tried again until then
	defer cancel()
	if _, err := globex.Bus.PutBlob(once, bytes.Repeat([]byte("x"), 8<<20)); err == nil {
		t.Error("bytes: got 8 MiB into 4 MB, want the limit")
	}
	acme.RunTurn("s1", "t2", harness.Text("still here"))
	_, err = acme.Bus.PutBlob(acme.Ctx, bytes.Repeat([]byte("x"), 8<<20))
	runtest.WantError(t, "the other's blob", err, nil)
	acme.Open(api.CreateRequest{ID: "another"})
}
