package catalogue

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// ownershipEntries has the rules of several owners. A lease is the claim of a turn: the event turn.started,
// with the attempt as its fencing token. The journal is the session's history.
func ownershipEntries() []entry {
	return []entry{
		{"S01", "superseded owner does not commit", "two owners, B has taken over", "A commits", "rejected; B's state intact", testOldOwner},
		{"S02", "attempts increase", "takeovers", "the attempts are read", "they strictly increase; holding a turn keeps the attempt", testAttemptsRise},
		{"S03", "second turn finds the session busy", "a turn that runs", "another one must run now, or inputs are drained", "busy / no-op", testBusy},
		{"S04", "long turn keeps its owner", "a turn longer than three times the wait for a quiet worker", "its owner is healthy", "lease kept, one execution", testLongTurn},
		{"S05", "crash at every write has each effect once", "a crash before and after every write of a node", "another resumes", "each durable effect observed exactly once", testCrashAnywhere},
		{"S06", "replay has the same state and runs nothing", "a live run", "its history is replayed", "identical committed state, zero executions", testReplayed},
		{"S07", "key with other content is refused", "the same key with a different command", "repeated", "mismatch error", testMismatch},
		{"S08", "each input settles once", "inputs, hosts and nodes that are killed", "any interleaving", "each input settles exactly once", testInputsEndOnce},
		{"S09", "late failure shows no part of a commit", "a commit with claimed inputs and the turn's end", "fails late", "neither visible", testCommitWhole},
		{"S10", "commands run before inputs", "commands enqueued before an input", "drained", "commands first, one at a time", testCommandsFirst},
		{"S11", "sessions do not mix", "two sessions", "concurrent load", "no cross-talk of events, tasks, usage", testSessionsAreIndependent},
	}
}

// testOldOwner commits the claim of another worker while A waits for a tool.
func testOldOwner(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, 2)
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "slow", "{}")), harness.Reply(harness.Text("done")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		started <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return "from A, too late", nil
	})
	kill := b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the call", started)
	b.AwaitState(id, "the call in the history", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Calls) == 1 })
	stop, err := b.Bus.ServeWorker("B", func([]byte) []byte { return []byte("yes") }) // B is alive, and says that it runs the turn
	runtest.WantError(t, "serve", err, nil)
	b.CommitToTurn(id, &events.TurnStarted{Attempt: 2, Worker: "B"}, &events.ToolLost{Calls: []int64{0}})
	took := b.StateOf(id)
	close(release)
	kill() // returns when A has written all that it can
	after := b.StateOf(id)
	runtest.Equal(t, "sequence after A's word", after.Seq, took.Seq)
	runtest.Equal(t, "owner", after.Turn().Worker, "B")
	runtest.Equal(t, "attempt", after.Turn().Attempt, 2)
	runtest.Equal(t, "state of B as it was", bytes.Equal(harness.EncodeState(t, after), harness.EncodeState(t, took)), true)
	stop()
	b.StartWorker(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	if got := strings.Join(b.Messages(id), "\n"); strings.Contains(got, "too late") {
		t.Errorf("messages: got %s, want nothing of A's", got)
	}
}

func testAttemptsRise(t *testing.T) {
	const kills = 4
	var script []harness.Step
	started := make([]chan struct{}, kills)
	for i := range started {
		started[i] = make(chan struct{})
		script = append(script, harness.Hang(started[i]))
	}
	b := harness.StartIdle(t, append(script, harness.Reply(harness.Text("done")))...)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	for i := range kills {
		kill := b.StartWorker(bustest.Open(t, b.Server))
		harness.Receive(b, "the model call", started[i])
		kill()
	}
	b.StartWorker(b.Bus)
	runtest.Equal(t, "attempts", b.AwaitTurn(id, "t1").Attempts, kills+1)
	workers := make(map[events.WorkerID]bool)
	for i, p := range harness.Find[*events.TurnStarted](b, id) {
		runtest.Equal(t, "attempt", p.Attempt, int64(i+1))
		workers[p.Worker] = true
	}
	runtest.Equal(t, "workers", len(workers), kills+1)
}

func testBusy(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.Start(t, harness.DoFirst(func() { close(started); <-release }, harness.Reply(harness.Text("done"))))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the model call", started)
	_, err := b.OtherHost().Run(b.Ctx, id, api.TurnRequest{
		ID: "t2", Input: events.TurnInput{Parts: []events.Part{harness.Text("me too")}}, WhenBusy: api.WhenBusyReject,
	})
	runtest.WantError(t, "another turn", err, api.ErrTurnRunning)
	runtest.WantError(t, "wake", b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	close(release)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	b.AwaitUnqueued(id)
	runtest.Equal(t, "turns", b.StateOf(id).Turns, 1)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant done"})
}

func testLongTurn(t *testing.T) {
	var calls atomic.Int64
	wait := func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
		calls.Add(1)
		timer := time.NewTimer(3*bus.AckWait + bus.AckWait/4) //nolint:forbidigo // the time of the model's work
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return harness.Reply(harness.Text("done"))(ctx, llm.Request{})
	}
	b := harness.StartIdle(t, wait)
	b.StartWorker(b.Bus)
	b.StartWorker(bustest.Open(t, b.Server)) // would take the turn, were it free
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	runtest.Equal(t, "attempts", record.Attempts, 1)
	runtest.Equal(t, "executions", calls.Load(), 1)
	runtest.Equal(t, "claims", len(harness.Find[*events.TurnStarted](b, id)), 1)
}

// testReplayed replays the history of a turn with hooks at every point. At each event the state equals the state
// of the node of the live run, and the replay runs nothing. A node that reads the history runs nothing either.
func testReplayed(t *testing.T) {
	c := harness.NewHookCounter("nothing")
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("again")))
	b.StartNode(c.Factory())
	id := b.Open(api.CreateRequest{Labels: map[string]string{"a": "b"}})
	live := b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "times that the model was asked", len(b.Model.Requests()), 2)
	before := maps.Clone(c.Count)
	runtest.Equal(t, "executions of the live run", before["tool"], 1)
	var file bytes.Buffer
	_, err := archive.Write(b.Ctx, b.Bus.Log(), b.Bus, id, &file)
	runtest.WantError(t, "export", err, nil)
	read, err := events.ReadArchive(&file, 1<<30)
	runtest.WantError(t, "read archive", err, nil)
	replayed := projector.New(id)
	for e, err := range archive.Decrypted(read.Log, b.Bus.Keys()).Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		runtest.WantError(t, "apply", replayed.Apply(e), nil)
	}
	runtest.Equal(t, "state", bytes.Equal(harness.EncodeState(t, replayed), harness.EncodeState(t, b.StateOf(id))), true) // of the node's own host: it folded nothing from the log
	runtest.Equal(t, "state of a host that reads it", bytes.Equal(harness.EncodeState(t, replayed), harness.EncodeState(t, stateAt(b, b.OtherHost(), id))), true)
	record, err := replayed.Record("t1")
	runtest.WantError(t, "record", err, nil)
	runtest.Equal(t, "end", record.End, live.End)
	b.StartNodeOn(bustest.Open(t, b.Server), c.Factory())
	b.AwaitUnqueued(id)
	if !maps.Equal(c.Count, before) {
		t.Errorf("executions after replays: got %v, want %v", c.Count, before)
	}
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 2)
	harness.VerifyHistory(t, b.Bus, id)
}

func stateAt(b *harness.System, h *session.Host, id events.SessionID) *projector.State {
	b.T.Helper()
	s, err := h.State(b.Ctx, id)
	runtest.WantError(b.T, "state", err, nil)
	return s
}

// testMismatch repeats a key with another command: a turn's id, the key of a direct completion in a turn, and a
// reply's effect. TestNestedFailures has calls inside of calls, TestLongKeyBelongsToItsRequest has requests.
func testMismatch(t *testing.T) {
	var failed, same []error
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "ask", "{}")), harness.Reply(harness.Text("title")), harness.Reply(harness.Text("hi")))
	b.StartNode(harness.PluginOf("asks", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "ask"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			var text string
			for _, question := range []string{"one", "other", "one"} {
				req := harness.CompletionOf(question)
				req.Key = "title"
				got, err := c.Host.Complete(ctx, req, "title")
				if question == "one" {
					same, text = append(same, err), text+got.Text
				} else {
					failed = append(failed, err)
				}
			}
			return text, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.WantError(t, "the same key with another completion", errors.Join(failed...), api.ErrDifferent)
	runtest.WantError(t, "the same completion", errors.Join(same...), nil)
	runtest.Equal(t, "its answers", b.CallResult(id, "k"), "titletitle")
	runtest.Equal(t, "times that the model was asked", len(b.Model.Requests()), 3)
	before := b.LastSeq(id)
	_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("other")}}})
	runtest.WantError(t, "the same turn with other input", err, api.ErrDifferent)
	runtest.Equal(t, "text of the same turn again", b.RunTurn(id, "t1", harness.Text("hello")).Text, "hi")
	runtest.Equal(t, "sequence", b.LastSeq(id), before)

	v := projector.NewVerifier(id)
	var found []projector.Rule
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		for i := range e.Commit.Events {
			if p, ok := e.Commit.Events[i].Payload.(*events.ModelReplied); ok {
				p.Prompt.Digest = strings.Repeat("0", len(p.Prompt.Digest)) // as of another command
			}
		}
		for _, violation := range v.Apply(e) {
			found = append(found, violation.Check)
		}
	}
	runtest.EqualLists(t, "what a replay says of replies to another prompt", found, []projector.Rule{projector.RulePrompt, projector.RulePrompt})
}
