package security

import (
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestNodeWithoutKeyLeavesWork: a node without the key of a session gets its wake again and again, and neither runs nor ends
// the turn. A node with the key then runs it.
func TestNodeWithoutKeyLeavesWork(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	f := &harness.Fleet{System: harness.StartWith(t, server, bustest.OpenWith(t, server, bustest.Keys(t)))}
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	last := f.LastSeq(id)
	core, logs := observer.New(zapcore.WarnLevel)
	n := f.JoinOn(openWithout(t, server), workers.Config{Logger: zap.New(core)})
	f.AwaitPolling("the node without the key returned the wake twice", func() bool {
		return logs.FilterMessage("left to a node with the key of the session").Len() >= 2
	})
	runtest.Equal(t, "commits", f.LastSeq(id), last)
	runtest.Equal(t, "wake", f.HasWake(id), true)
	runtest.Equal(t, "model calls", len(f.Requested), 0)
	_, err := f.Bus.DeadLetter(f.Ctx, id)
	runtest.WantError(t, "dead letter", err, bus.ErrNotFound)
	trial, err := f.Bus.Trial(f.Ctx, bus.TrialKey{Session: id, Of: bus.TrialFold})
	runtest.WantError(t, "trial", err, nil)
	runtest.Equal(t, "counted attempts", trial.Count, int64(0))
	_, err = n.Host().Submit(f.Ctx, id, harness.TurnRequest("t2", "more"))
	runtest.WantError(t, "submit at the node without the key", err, events.ErrLocked)
	f.JoinOn(bustest.OpenWith(t, server, bustest.Keys(t)), workers.Config{})
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
}

// TestRedactEncryptedSession redacts an encrypted session: it needs the key, and the tree stays the same.
func TestRedactEncryptedSession(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := harness.StartWith(t, server, bustest.OpenWith(t, server, bustest.Keys(t)))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, said("text", 0))
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)
	tree := func(on *bus.Bus) (tree proof.Tree) {
		for e, err := range on.Log().Read(b.Ctx, id, 1) {
			runtest.WantError(t, "read", err, nil)
			tree.Append(events.CommitHash(e.Data))
		}
		return tree
	}
	before := tree(b.Bus)
	without := openWithout(t, server)
	_, err := b.NewHost(without).Redact(b.Ctx, id, []string{"graph.appended"}, "asked to")
	runtest.WantError(t, "without the key", err, events.ErrLocked)
	done, err := b.Redact(b.Ctx, id, []string{"graph.appended"}, "asked to")
	runtest.WantError(t, "redact", err, nil)
	runtest.Equal(t, "replaced", done.Events, int64(1))
	runtest.DeepEqual(t, "tree", tree(without), before)
	runtest.Equal(t, "redacted", b.StateOf(id).Redacted > 0, true)
}

// TestBodiesAfterRotation: nodes with a newer first key read what the older one encrypted, blobs too, and find a body that is
// stored again.
func TestBodiesAfterRotation(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	first := bustest.Keys(t)
	b, hot, cold := bodySessions(t, server, bustest.OpenWith(t, server, first))
	want := harness.EncodeState(t, b.StateOf(hot))
	both, id, err := first.Add()
	runtest.WantError(t, "add", err, nil)
	second, err := both.Use(id)
	runtest.WantError(t, "use", err, nil)
	on := bustest.OpenWith(t, server, second)
	h := b.NewHost(on)
	for _, id := range []events.SessionID{hot, cold} {
		s, err := h.State(b.Ctx, id)
		runtest.WantError(t, "state", err, nil)
		runtest.WantError(t, "check", s.Check(), nil)
	}
	s, err := h.State(b.Ctx, hot)
	runtest.WantError(t, "state", err, nil)
	runtest.DeepEqual(t, "state after the rotation", harness.EncodeState(t, s), want)
	body := []byte(said("attachment", 300_000))
	ref, err := on.PutBlob(b.Ctx, body)
	runtest.WantError(t, "put again", err, nil)
	got, err := on.Blob(b.Ctx, ref)
	runtest.WantError(t, "read", err, nil)
	runtest.DeepEqual(t, "body", got, body)
	_, err = h.Submit(b.Ctx, cold, harness.TurnRequest("late", "go on"))
	runtest.WantError(t, "submit to the cold session", err, nil)
	old, err := bus.Open(b.Ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Keys: first})
	if err == nil {
		old.Close()
		t.Error("a node without the new key starts after the rotation")
	}
}
