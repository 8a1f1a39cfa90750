package session_test

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

const sid events.SessionID = "s"

// bundle is a server with an open session and no worker.
type bundle struct {
	t      *testing.T
	server *busembed.Server
	bus    *bus.Bus
	host   *session.Host
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, server: bustest.Server(t, busembed.Config{})}
	b.bus = bustest.Open(t, b.server)
	b.host = newHost(t, b.bus, 0)
	if _, err := b.host.Create(t.Context(), api.CreateRequest{ID: sid}); err != nil {
		t.Fatal(err)
	}
	return b
}

func newHost(t *testing.T, on *bus.Bus, maxQueued int) *session.Host {
	t.Helper()
	h, err := session.New(session.Config{Bus: on, MaxQueued: maxQueued, NoPlugins: true})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// another is a host with its own cache, as in another process.
func (b *bundle) another(maxQueued int) *session.Host {
	b.t.Helper()
	return newHost(b.t, bustest.Open(b.t, b.server), maxQueued)
}

func (b *bundle) state() *projector.State {
	b.t.Helper()
	s, err := b.host.State(b.t.Context(), sid)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		b.t.Error(err)
	}
	return s
}

// append appends events of a turn, as a worker does.
func (b *bundle) append(turn events.TurnID, list ...events.Payload) {
	b.t.Helper()
	c := &events.Commit{Session: sid, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	at := b.state().Seq
	c.ID = events.CommitID(time.Now().Format("150405.000000000"))
	if _, err := b.bus.Log().Append(b.t.Context(), c, at); err != nil {
		b.t.Fatal(err)
	}
}

// pending starts turn t1, with this number of calls that wait for an external result.
func (b *bundle) pending(calls int) {
	b.t.Helper()
	b.running(calls)
	pended := &events.ToolPended{}
	for i := range calls {
		pended.Calls = append(pended.Calls, int64(i))
	}
	b.append("t1", pended)
}

// running starts turn t1, with this number of calls.
func (b *bundle) running(calls int) {
	b.t.Helper()
	if _, err := b.host.Submit(b.t.Context(), sid, ask("t1", "go")); err != nil {
		b.t.Fatal(err)
	}
	prompt, err := b.state().Prompt()
	if err != nil {
		b.t.Fatal(err)
	}
	reply := &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse}
	for range calls {
		reply.Parts = append(reply.Parts, events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte("{}")})
	}
	b.append("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}, reply)
}

func ask(id events.TurnID, text string) api.TurnRequest {
	req := api.Ask(text)
	req.ID = id
	return req
}

// unchanged checks that the history has no commit after since.
func (b *bundle) unchanged(since *projector.State, what string) {
	b.t.Helper()
	if now := b.state(); now.Seq != since.Seq {
		b.t.Errorf("%s: got %d commits more, want none", what, now.Seq-since.Seq)
	}
}

// history lists the kinds of events after a sequence.
func (b *bundle) history(after events.Seq) (list []events.Kind) {
	b.t.Helper()
	for entry, err := range b.bus.Log().Read(b.t.Context(), sid, after+1) {
		if err != nil {
			b.t.Fatal(err)
		}
		for i := range entry.Commit.Events {
			list = append(list, entry.Commit.Events[i].Kind)
		}
	}
	return list
}

// takeWake waits for the session's wake and removes it from the queue.
func (b *bundle) takeWake() *bus.Wake {
	b.t.Helper()
	q, err := b.bus.Queue(b.t.Context(), bus.ClassTurn)
	if err != nil {
		b.t.Fatal(err)
	}
	var w *bus.Wake
	if _, err := q.Fetch(b.t.Context(), 1, 20*time.Second, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		b.t.Fatalf("fetch: got %v, %v, want a wake", w, err)
	}
	if _, err := b.bus.Conn().RequestWithContext(b.t.Context(), w.Handle(), []byte("+ACK")); err != nil {
		b.t.Fatal(err)
	}
	return w
}
