package session_test

import (
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/sessiontest"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

const sid = sessiontest.ID

// bundle is a server with an open session, and a host of no worker.
type bundle struct{ *sessiontest.System }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{sessiontest.Start(t)}
}

// another is a host with its own cache, as in another process.
func (b *bundle) another(maxQueued int) *session.Host {
	b.T.Helper()
	return sessiontest.NewHost(b.T, session.Config{Bus: bustest.Open(b.T, b.Server), MaxQueued: maxQueued})
}

// pending starts turn t1, with this number of calls that wait for an external result.
func (b *bundle) pending(calls int) {
	b.T.Helper()
	b.running(calls)
	pended := &events.ToolPended{}
	for i := range calls {
		pended.Calls = append(pended.Calls, int64(i))
	}
	b.Append("t1", pended)
}

// running starts turn t1, with this number of calls.
func (b *bundle) running(calls int) {
	b.T.Helper()
	_, err := b.Host.Submit(b.T.Context(), sid, ask("t1", "go"))
	runtest.NoError(b.T, err)
	prompt, err := b.State().Prompt()
	runtest.NoError(b.T, err)
	reply := &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse}
	for range calls {
		reply.Parts = append(reply.Parts, events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte("{}")})
	}
	b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}, reply)
}

func ask(id events.TurnID, text string) api.TurnRequest {
	req := api.Ask(text)
	req.ID = id
	return req
}

// unchanged checks that the history has no commit after since.
func (b *bundle) unchanged(since *projector.State, what string) {
	b.T.Helper()
	if now := b.State(); now.Seq != since.Seq {
		b.T.Errorf("%s: got %d commits more, want none", what, now.Seq-since.Seq)
	}
}

// history lists the kinds of events after a sequence.
func (b *bundle) history(after events.Seq) (list []events.Kind) {
	b.T.Helper()
	for entry, err := range b.Bus.Log().Read(b.T.Context(), sid, after+1) {
		runtest.NoError(b.T, err)
		for i := range entry.Commit.Events {
			list = append(list, entry.Commit.Events[i].Kind)
		}
	}
	return list
}

// takeWake waits for the session's wake and removes it from the queue.
func (b *bundle) takeWake() *bus.Wake {
	b.T.Helper()
	w := b.FetchWake(b.Bus, bus.ClassTurn)
	_, err := b.Bus.Conn().RequestWithContext(b.T.Context(), w.Handle(), []byte("+ACK"))
	runtest.NoError(b.T, err)
	return w
}
