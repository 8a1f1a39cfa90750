package security

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
)

// forgedPlain is a commit that requests a turn, made without the key of the store.
func forgedPlain(id events.SessionID) *events.Commit {
	return &events.Commit{
		ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorClient, ID: "alice"},
		Events: []events.Event{events.Of("forged", &events.TurnRequested{})},
	}
}

// TestForgedPlainCommit stores a plain commit in a session of a store whose bodies are encrypted. No node acts on it: no turn
// starts, reads and requests are refused, copies are not made, and its archive is not imported.
func TestForgedPlainCommit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	keys := bustest.Keys(t)
	b := harness.StartWith(t, server, bustest.OpenWith(t, server, keys), harness.Reply(harness.Text("first")), harness.Reply(harness.Text("forged")))
	b.StartNode()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "ta", harness.Text("question"))
	last := b.LastSeq(id)
	data, err := events.Encode(forgedPlain(id))
	runtest.WantError(t, "encode", err, nil)
	msg := &nats.Msg{Subject: "lash.s." + string(id) + ".turn", Data: data, Header: nats.Header{"Nats-Msg-Id": {"forged"}}}
	_, err = b.JetStream().PublishMsg(b.Ctx, msg)
	runtest.WantError(t, "publish", err, nil)
	h := b.NewHost(bustest.OpenWith(t, server, keys))
	for _, door := range []struct {
		what string
		do   func() error
	}{
		{"state", func() error { _, err := h.State(b.Ctx, id); return err }},
		{"view", func() error { _, err := h.View(b.Ctx, id); return err }},
		{"submit", func() error { _, err := h.Submit(b.Ctx, id, harness.TurnRequest("late", "go")); return err }},
		{"fork", func() error { _, err := h.Fork(b.Ctx, id, api.CreateRequest{}); return err }},
		{"the node's host", func() error { _, err := b.Submit(b.Ctx, id, harness.TurnRequest("late", "go")); return err }},
	} {
		t.Log(door.what)
		if err := door.do(); !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), "without its key") {
			t.Errorf("%s: got %v, want that the commit is forged", door.what, err)
		}
	}
	runtest.Equal(t, "commits", b.LastSeq(id), last+1)

	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, id, 1)
	runtest.WantError(t, "archive", err, nil)
	for e, err := range openWithout(t, server).Log().Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", errors.Join(err, w.Commit(e)), nil)
	}
	runtest.WantError(t, "archive", w.Close(), nil)
	a, err := events.ReadArchive(&file, 1<<20)
	runtest.WantError(t, "read archive", err, nil)
	other := bustest.OpenWith(t, bustest.Server(t, busembed.Config{}), keys)
	if _, err := archive.Restore(b.Ctx, other, a); !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), "without its key") {
		t.Errorf("import: got %v, want that the commit is forged", err)
	}
	for session, err := range other.Sessions(b.Ctx) {
		t.Errorf("a session was imported: %s, %v", session, err)
	}
}
