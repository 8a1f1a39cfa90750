package security

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/code"
)

// onlyFinish are options of the code protocol with which a reply without a program does not end a turn.
const onlyFinish = `{"termination":"finish_required"}`

// TestLocksHoldProtocolOptions has sessions with options of the code protocol from before the lock, in every form in which they can be
// there. Their turns run with the node's options, so that the model's text ends them.
func TestLocksHoldProtocolOptions(t *testing.T) {
	t.Parallel()
	elsewhere, b := harness.StartIdle(t), harness.StartIdle(t)
	options := func(id string) api.CreateRequest {
		return api.CreateRequest{ID: events.SessionID(id), Config: events.Config{Protocol: code.ID}, Options: map[string]string{code.ID: onlyFinish}}
	}
	own := events.TurnInput{Parts: []events.Part{harness.Text("go")}, Options: []byte(onlyFinish)}
	b.Open(options("session"))
	b.Open(options("parent"))
	copyArchive(b, elsewhere, elsewhere.Open(options("imported")))
	framed := b.Open(api.CreateRequest{ID: "framed", Config: events.Config{Protocol: code.ID}})
	_, err := b.Bus.Log().Append(b.Ctx, &events.Commit{
		ID: "frames", Session: framed, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "older"},
		Events: []events.Event{events.Of("", &events.FrameConfigured{Options: []byte(onlyFinish), All: true})},
	}, b.LastSeq(framed))
	runtest.WantError(t, "frames", err, nil)
	queued := b.Open(api.CreateRequest{ID: "queued", Config: events.Config{Protocol: code.ID}})
	_, err = b.Submit(b.Ctx, queued, api.TurnRequest{ID: "t1", Input: own})
	runtest.WantError(t, "queue", err, nil)
	b.Model.Rescript(slices.Repeat([]harness.Step{harness.Reply(harness.Text("done"))}, 8)...)
	n := b.StartNodeWith(workers.Config{Locks: lock.Locks{Plugins: []string{code.ID}}}, plugin.BuilderConfig{Builtins: workers.Builtins()})
	b.Host = n.Host()
	for _, of := range []events.SessionID{"parent", "framed"} {
		_, err := b.Fork(b.Ctx, of, api.CreateRequest{ID: "fork-" + of})
		runtest.WantError(t, "fork", err, nil)
	}
	_, err = b.Create(b.Ctx, api.CreateRequest{ID: "child", Parent: "parent", Start: api.StartExisting, From: "parent"})
	runtest.WantError(t, "child", err, nil)
	runtest.Equal(t, "end of queued", b.AwaitTurn(queued, "t1").End, events.EndFinished)
	for _, id := range []events.SessionID{"session", "imported", "framed", "parent", "fork-parent", "fork-framed", "child"} {
		_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: "never", Input: own})
		if !errors.Is(err, api.ErrForbidden) || !strings.Contains(err.Error(), "input.options: ") {
			t.Errorf("options of a turn of %s: got %v, want input.options forbidden", id, err)
		}
		runtest.Equal(t, "end of "+string(id), b.RunTurn(id, "t2", harness.Text("go")).End, events.EndFinished)
	}
	runtest.Equal(t, "calls of the model", len(b.Model.Requests()), 8)
}

// TestLockedFieldsOfDocument compares the document of the HTTP API with the requests of lockedOverHTTP: each operation whose body has
// a field that a lock names is among them.
func TestLockedFieldsOfDocument(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	d := b.ServeHTTP(httpapi.Config{Service: b.Host})
	want := []string{"complete", "configureSession", "createSession", "forkSession", "setProtocolOptions", "startMonitor", "streamCompletion", "submitTurn"}
	names := []string{"config", "environment", "fallbacks", "max_iterations", "max_output_tokens", "max_tokens", "model", "options", "plugins", "protocol", "provider", "retain_ms"}
	var got []string
	for _, op := range d.Doc.Operations() {
		if slices.ContainsFunc(op.Fields, func(f string) bool { return slices.Contains(names, f) }) {
			got = append(got, op.ID)
		}
	}
	runtest.EqualLists(t, "operations", got, want)
}
