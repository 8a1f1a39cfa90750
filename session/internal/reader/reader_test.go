package reader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/reader"
	"github.com/lash-go/lash/session/sessiontest"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

const sid = sessiontest.ID

// bundle is a server with an open session, and a reader of another process.
type bundle struct {
	*sessiontest.System
	r *reader.Reader
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{System: sessiontest.Start(t)}
	var err error
	if b.r, err = reader.New(b.Bus, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

// start submits and claims a turn.
func (b *bundle) start(id events.TurnID) {
	b.T.Helper()
	req := api.Ask("question of " + string(id))
	req.ID = id
	_, err := b.Host.Submit(b.T.Context(), sid, req)
	runtest.NoError(b.T, err)
	b.Append(id, &events.TurnStarted{Attempt: 1, Worker: "w1"})
}

// reply is a reply of the model to the prompt of the state.
func (b *bundle) reply(stop events.StopReason, parts ...events.Part) *events.ModelReplied {
	b.T.Helper()
	prompt, err := b.State().Prompt()
	runtest.NoError(b.T, err)
	return &events.ModelReplied{Iteration: b.State().Turn().Iteration, Prompt: prompt.Ref, Stop: stop, Parts: parts, Model: "m"}
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

// turn runs a turn that answers after one call of a tool. The model reads a shorter output of the call than there was.
func (b *bundle) turn(id events.TurnID) {
	b.T.Helper()
	b.start(id)
	b.Append(id, b.reply(events.StopToolUse, events.Part{Kind: events.PartToolCall, Call: "c1", Tool: "read", Args: []byte(`{"file":"a"}`)}))
	b.Append(id, &events.ToolReturned{Results: []events.ToolResult{{Text: "short", Full: "the whole output", Outcome: events.OutcomeSuccess}}})
	b.Append(id, b.reply(events.StopEnd, text("answer of "+string(id))), &events.TurnCompleted{End: events.EndFinished})
}

// TestTurnResult has the answer of an ended turn, and an error for a turn that failed or that the history does not have.
func TestTurnResult(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn("t1")
	got, err := b.r.TurnResult(t.Context(), sid, "t1", false)
	if err != nil || got.End != events.EndFinished || got.Text != "answer of t1" {
		t.Errorf("got %+v, %v, want the answer", got, err)
	}
	b.start("t2")
	b.Append("t2", &events.TurnCompleted{End: events.EndFailed, Issue: events.Issue{Kind: "runtime", Code: "lost"}})
	_, err = b.r.TurnResult(t.Context(), sid, "t2", false)
	if failed, ok := errors.AsType[*api.TurnFailedError](err); !ok || failed.Issue.Code != "lost" {
		t.Errorf("failed turn: got %v, want its issue", err)
	}
	_, err = b.r.TurnResult(t.Context(), sid, "t9", false)
	runtest.WantError(t, "unknown turn", err, api.ErrUnknownTurn)
}

// TestAssembledTurn has the replies and calls of an ended turn, and refuses any other.
func TestAssembledTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn("t1")
	b.start("t2")
	got, err := b.r.AssembledTurn(t.Context(), sid, "t1")
	if err != nil || len(got.ToolCalls) != 1 || len(got.ModelCalls) != 2 || got.Outcome.Text != "answer of t1" {
		t.Fatalf("got %+v, %v, want two replies, a call and the answer", got, err)
	}
	if c := got.ToolCalls[0]; c.Tool != "read" || c.CallID != "c1" || string(c.Args) != `{"file":"a"}` || c.Outcome != events.OutcomeSuccess {
		t.Errorf("call: got %+v, want the one of the reply", c)
	}
	for turn, want := range map[events.TurnID]error{"t2": api.ErrTurnRunning, "t9": api.ErrUnknownTurn} {
		_, err = b.r.AssembledTurn(t.Context(), sid, turn)
		runtest.WantError(t, fmt.Sprintf("turn %s", turn), err, want)
	}
}

// TestToolOutput is the whole output, also where the model read a shorter one.
func TestToolOutput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn("t1")
	turn, err := b.r.AssembledTurn(t.Context(), sid, "t1")
	if err != nil || len(turn.ToolCalls) != 1 {
		t.Fatalf("got %+v, %v", turn, err)
	}
	if got, err := b.r.ToolOutput(t.Context(), sid, turn.ToolCalls[0].Call); got != "the whole output" || err != nil {
		t.Errorf("got %q, %v, want the whole output", got, err)
	}
	for _, call := range []events.EffectID{"t1/0/9", "t9/0/0", ""} {
		_, err = b.r.ToolOutput(t.Context(), sid, call)
		runtest.WantError(t, fmt.Sprintf("call %q", call), err, api.ErrUnknownCall)
	}
}

// TestTurns lists the turns of every status, the newest first, in pages that neither repeat nor miss one.
func TestTurns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn("t1")
	b.turn("t2")
	b.start("t3")
	for _, id := range []events.TurnID{"t4", "t5"} {
		req := api.Ask("later")
		req.ID = id
		_, err := b.Host.Submit(t.Context(), sid, req)
		runtest.NoError(t, err)
	}
	want := "t5:waiting t4:waiting t3:running t2:ended t1:ended"
	for limit := 1; limit <= 6; limit++ {
		var got []string
		for p := (api.Page{Limit: limit}); ; {
			page, err := b.r.Turns(t.Context(), sid, p)
			if err != nil || len(page.Turns) > limit {
				t.Fatalf("limit %d: got %d turns, %v", limit, len(page.Turns), err)
			}
			for _, turn := range page.Turns {
				got = append(got, fmt.Sprintf("%s:%s", turn.ID, turn.Status))
			}
			if p.Cursor = page.Next; p.Cursor == "" {
				break
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("limit %d: got %v, want %s", limit, got, want)
		}
	}
	if _, err := b.r.Turns(t.Context(), sid, api.Page{Cursor: "x"}); !errors.As(err, new(*events.FieldError)) {
		t.Errorf("another list's cursor: got %v, want a refusal", err)
	}
}

// TestViewAt reads the conversation as it was, and refuses a sequence that is not in the history.
func TestViewAt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.State().Seq
	b.turn("t1")
	for name, c := range map[string]struct {
		seq      events.Seq
		messages int
	}{"before": {before, 0}, "end": {b.State().Seq, 4}} {
		view, err := b.r.ViewAt(t.Context(), sid, c.seq)
		if err != nil || len(view.Messages) != c.messages || view.Seq != c.seq {
			t.Errorf("%s: got %d messages at %d, %v, want %d", name, len(view.Messages), view.Seq, err, c.messages)
		}
	}
	for _, seq := range []events.Seq{0, b.State().Seq + 1, b.State().Seq + 10} {
		_, err := b.r.ViewAt(t.Context(), sid, seq)
		if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "at" {
			t.Errorf("sequence %d: got %v, want a refusal of at", seq, err)
		}
	}
}

// TestBlobs finds a body that the history names, and reads it. No other body of the store is found.
func TestBlobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref, err := b.Host.StoreBlob(t.Context(), sid, []byte("body"))
	runtest.NoError(t, err)
	other, err := b.Bus.PutBlob(t.Context(), []byte("of another session"))
	runtest.NoError(t, err)
	refs, err := b.r.FindBlobs(t.Context(), sid, ref.Digest, ref.Digest)
	if err != nil || len(refs) != 2 || refs[0] != ref || refs[1] != ref {
		t.Errorf("got %v, %v, want %v twice", refs, err, ref)
	}
	if body, err := b.r.ReadBlob(t.Context(), sid, ref.Digest); string(body) != "body" || err != nil {
		t.Errorf("got %q, %v, want the body", body, err)
	}
	_, err = b.r.ReadBlob(t.Context(), sid, other.Digest)
	runtest.WantError(t, "another session's body", err, api.ErrUnknownBlob)
	_, err = b.r.FindBlobs(t.Context(), sid, make([]string, api.MaxDigests+1)...)
	runtest.WantError(t, "too many digests", err, events.ErrTooLarge)
	if _, err := b.r.FindBlobs(t.Context(), sid, "no digest"); !errors.As(err, new(*events.FieldError)) {
		t.Errorf("no digest: got %v, want a refusal", err)
	}
}

// TestTasks lists the tasks of a session by creation, without hidden ones. A session that does not exist has none.
func TestTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.TaskID{"k2", "k1"} {
		_, err := b.Host.RegisterTask(t.Context(), sid, api.TaskRequest{ID: id})
		runtest.NoError(t, err)
	}
	list, err := b.r.Tasks(t.Context(), sid)
	if err != nil || len(list) != 2 || list[0].ID != "k2" || list[1].ID != "k1" {
		t.Errorf("got %+v, %v, want k2 and k1", list, err)
	}
	if one, err := b.r.Task(t.Context(), sid, "k1"); err != nil || one.ID != "k1" || one.State != list[1].State {
		t.Errorf("got %+v, %v, want k1", one, err)
	}
	_, err = b.r.Task(t.Context(), sid, "k9")
	runtest.WantError(t, "unknown task", err, api.ErrUnknownTask)
	if list, err := b.r.Tasks(t.Context(), "none"); len(list) != 0 || err != nil {
		t.Errorf("no session: got %v, %v, want none", list, err)
	}
}

// TestSessions lists the directory, the newest first, and the session's state only for a caller that may read it.
func TestSessions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	alice := api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: "alice"})
	ids := []events.SessionID{sid, "a1", "a2"}
	for _, id := range ids[1:] {
		_, err := b.Host.Create(alice, api.CreateRequest{ID: id})
		runtest.NoError(t, err)
	}
	for _, id := range ids {
		runtest.NoError(t, follow.NewProjector(b.Bus, nil).Project(t.Context(), id))
	}
	found := func(ctx context.Context) map[events.SessionID]bool {
		page, err := b.r.Sessions(ctx, api.SessionQuery{})
		runtest.NoError(t, err)
		set := make(map[events.SessionID]bool)
		for _, s := range page.Sessions {
			set[s.ID] = true
		}
		return set
	}
	runtest.Equal(t, "found", len(found(t.Context())), 3)
	bounded := func(name string) context.Context {
		return api.WithCaller(t.Context(), api.Caller{Name: name, Reach: api.Reach{Scope: api.ScopeRead, Own: true}}, api.RightRead, "")
	}
	if got := found(bounded("alice")); len(got) != 2 || !got["a1"] || !got["a2"] {
		t.Errorf("alice: got %v, want her own", got)
	}
	runtest.Equal(t, "bob", len(found(bounded("bob"))), 0)
	bob := api.WithSession(bounded("bob"), "a1")
	if _, err := b.r.State(bob, "a1"); !errors.Is(err, events.ErrNoSession) && !errors.Is(err, api.ErrForbidden) {
		t.Errorf("state for bob: got %v, want a refusal", err)
	}
	if _, err := b.r.StateAt(bob, "a1", 1); !errors.Is(err, events.ErrNoSession) && !errors.Is(err, api.ErrForbidden) {
		t.Errorf("old state for bob: got %v, want a refusal", err)
	}
}

// TestStateIsACopy changes what a reader returned: the next answer has the history's state.
func TestStateIsACopy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.r.State(t.Context(), sid)
	runtest.NoError(t, err)
	first.Status = projector.StatusClosed
	if again, err := b.r.State(t.Context(), sid); err != nil || again.Status != projector.StatusOpen {
		t.Errorf("got status %s, %v, want that of the history", again.Status, err)
	}
}
