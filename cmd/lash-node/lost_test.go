package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestLongServeForksLoss deletes the stream of a session that continued after its archive. The served node refuses the session, and says what
// to do. A fork has what is left, and goes on.
func TestLongServeForksLoss(t *testing.T) {
	t.Parallel()
	s := serveModel(t, endpoint(t, "none {}"), "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0")
	defer s.stop(t, syscall.SIGTERM)
	b, h, ctx := s.open(t), clientOf(t, s), limited(t)
	must := func(err error) {
		t.Helper()
		runtest.NoError(t, err)
	}
	configure := func(id events.SessionID, text string) error {
		return h.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Instructions = text; return c }})
	}
	_, err := h.Create(ctx, api.CreateRequest{ID: "cut"})
	must(err)
	must(b.Archive(ctx, "cut", 1))
	must(b.Discard(ctx, "cut"))
	must(configure("cut", "lost"))
	bustest.Eventually(t, "the row has the commit", func() bool {
		row, err := b.Directory().Get(ctx, "cut")
		return err == nil && strings.Contains(string(row.Value), `"seq":2`)
	})
	js, err := jetstream.New(b.Conn())
	must(err)
	for name := range js.StreamNames(ctx).Name() {
		if strings.HasPrefix(name, "lash-s-cut") {
			must(js.DeleteStream(ctx, name))
		}
	}
	out, errs, code := lashNode(t, "fork", "cut", "--store", s.store, "--json")
	var made forked
	if code != exitOK || json.Unmarshal([]byte(out), &made) != nil || made.Seq != 1 || made.From != "cut" {
		t.Fatalf("fork: got code %d, %q, %q, want a session from sequence 1", code, out, errs)
	}
	must(configure(made.Session, "goes on"))
	if err := configure("cut", "refused"); err == nil || !strings.Contains(err.Error(), "commits 2 to 2 are lost") {
		t.Errorf("configure: got %v, want the lost commit", err)
	}
	if _, errs, code := lashNode(t, "fork", "cut", "--at", "2", "--store", s.store); code != exitFailed || !strings.Contains(errs, "--at") {
		t.Errorf("fork at a lost commit: got code %d, %q", code, errs)
	}
}
