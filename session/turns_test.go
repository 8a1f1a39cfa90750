package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestQueueLimitIsExact: many hosts at once request more turns than may wait. Exactly the allowed number is accepted, and
// they run in the order of acceptance.
func TestQueueLimitIsExact(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const limit, hosts, each = 64, 16, 8
	type accepted struct {
		seq events.Seq
		id  events.TurnID
	}
	var mu sync.Mutex
	var list []accepted
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range hosts {
		h := b.another(limit)
		all.Go(func() {
			<-begin
			for i := range each {
				a, err := h.SubmitTurn(t.Context(), sid, ask(events.TurnID(fmt.Sprintf("t-%d-%d", n, i)), "go"))
				refused, ok := errors.AsType[*api.LimitError](err)
				switch {
				case err == nil:
					mu.Lock()
					list = append(list, accepted{a.Seq, a.Turn})
					mu.Unlock()
				case !ok || refused.Limit != limit || refused.What != "queued turns":
					t.Errorf("got %v, want the limit of %d queued turns", err, limit)
				}
			}
		})
	}
	close(begin)
	all.Wait()
	runtest.Equal(t, "accepted", len(list), limit)
	slices.SortFunc(list, func(x, y accepted) int { return int(x.seq) - int(y.seq) })
	s := b.State()
	if len(s.Queue) != len(list) {
		t.Fatalf("queue: got %d, want %d", len(s.Queue), len(list))
	}
	for i, q := range s.Queue {
		if q.ID != list[i].id || q.Seq != list[i].seq {
			t.Errorf("place %d: got %s of %d, want %s of %d", i, q.ID, q.Seq, list[i].id, list[i].seq)
		}
	}
	// A turn that ends frees one slot.
	b.Append(s.Queue[0].ID, &events.TurnCompleted{End: events.EndFailed})
	h := b.another(limit)
	_, err := h.Submit(t.Context(), sid, ask("more", "go"))
	runtest.WantError(t, "where one has ended", err, nil)
	if _, err := h.Submit(t.Context(), sid, ask("too-many", "go")); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("after it: got %v, want the limit", err)
	}
	_, err = h.Submit(t.Context(), sid, ask("more", "go"))
	runtest.WantError(t, "one that waits already", err, nil)
}

// TestSubmitAgain returns the same turn from any host, in any state of the turn.
func TestSubmitAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.Host.SubmitTurn(t.Context(), sid, ask("t1", "go"))
	runtest.NoError(t, err)
	for _, stage := range []struct {
		name string
		do   func()
	}{
		{"queued", func() {}},
		{"running", func() { b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}) }},
		{"ended", func() { b.Append("t1", &events.TurnCompleted{End: events.EndFinished}) }},
		{"closed", func() {
			runtest.NoError(t, b.Host.CloseSession(t.Context(), sid, ""))
		}},
	} {
		stage.do()
		before := b.State()
		for name, h := range map[string]*session.Host{"same": b.Host, "other": b.another(0)} {
			a, err := h.SubmitTurn(t.Context(), sid, ask("t1", "go"))
			if err != nil || a != first {
				t.Errorf("%s, %s host: got %+v, %v, want %+v", stage.name, name, a, err, first)
			}
			_, err = h.SubmitTurn(t.Context(), sid, ask("t1", "stop"))
			runtest.WantError(t, fmt.Sprintf("%s, %s host, other input", stage.name, name), err, api.ErrDifferent)
		}
		b.unchanged(before, stage.name)
	}
	_, err = b.Host.Submit(t.Context(), sid, ask("t2", "go"))
	runtest.WantError(t, "another turn of a closed session", err, api.ErrClosed)
}

// TestBlankPrompt: white space alone is no prompt, however it comes, and a picture with it is one.
func TestBlankPrompt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.State()
	for _, blank := range []string{"", " ", "\n\t ", "\u00a0\u2003", strings.Repeat(" ", 100_000)} {
		parts := []events.Part{{Kind: events.PartText, Text: blank}, {Kind: events.PartText, Text: "\r\n"}}
		_, submitted := b.Host.Submit(t.Context(), sid, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: parts}})
		_, scheduled := b.Host.SubmitAt(t.Context(), sid, time.Now().Add(time.Hour), api.TurnRequest{ID: "t2", Input: events.TurnInput{Parts: parts}})
		_, injected := b.Host.Inject(t.Context(), sid, api.InjectRequest{ID: "i1", Parts: parts})
		for operation, err := range map[string]error{"submit": submitted, "schedule": scheduled, "inject": injected} {
			if !errors.Is(err, events.ErrInvalid) || !strings.Contains(err.Error(), "parts: has nothing but white space") {
				t.Errorf("%s of %.10q: got %v, want it refused", operation, blank, err)
			}
		}
	}
	b.unchanged(before, "blank prompts")
	picture := []events.Part{{Kind: events.PartText, Text: " "}, {Kind: events.PartAttachment, MediaType: "image/png", Text: "aGk="}}
	_, err := b.Host.Submit(t.Context(), sid, api.TurnRequest{ID: "t3", Input: events.TurnInput{Parts: picture}})
	runtest.WantError(t, "a picture", err, nil)
}

// TestSubmitAtOnce requests one turn from many hosts at once: the history has it once.
func TestSubmitAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.State()
	answers := make(chan api.SubmitResponse, 8)
	var all sync.WaitGroup
	for range cap(answers) {
		h := b.another(1)
		all.Go(func() {
			a, err := h.SubmitTurn(t.Context(), sid, ask("t1", "go"))
			runtest.WantError(t, "err", err, nil)
			answers <- a
		})
	}
	all.Wait()
	close(answers)
	first := <-answers
	for a := range answers {
		if a != first {
			t.Errorf("got %+v and %+v, want the same answer", a, first)
		}
	}
	runtest.EqualLists(t, "history", b.history(before.Seq), []events.Kind{events.KindTurnRequested})
}

// TestSubmitAgainWakesAgain repeats a request, because the first host may have stopped before it published the wake.
func TestSubmitAgainWakesAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 {
		_, err := b.Host.Submit(t.Context(), sid, ask("t1", "go"))
		runtest.NoError(t, err)
		b.takeWake()
	}
	b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})
	_, err := b.another(0).Submit(t.Context(), sid, ask("t1", "go"))
	runtest.NoError(t, err)
	if w := b.takeWake(); w.Worker != "w1" {
		t.Errorf("wake: got %+v, want it to name the worker that has the turn", w.WakeHint)
	}
	for range 2 {
		_, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: "r"})
		runtest.NoError(t, err)
		b.takeWake()
	}
}

// TestAnsweredCallIsSetByNodes refuses a turn whose input names the call that its end would resolve.
func TestAnsweredCallIsSetByNodes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.State()
	req := ask("t2", "go")
	req.Input.Answers = "t1/0/1"
	for name, send := range map[string]func() (events.TurnID, error){
		"submit": func() (events.TurnID, error) { return b.Host.Submit(t.Context(), sid, req) },
		"at":     func() (events.TurnID, error) { return b.Host.SubmitAt(t.Context(), sid, soon, req) },
	} {
		_, err := send()
		if bad, ok := errors.AsType[*events.FieldError](err); !ok || bad.Field != "input.answers" || !errors.Is(err, events.ErrInvalid) {
			t.Errorf("%s: got %v, want input.answers refused", name, err)
		}
	}
	if after := b.State(); after.Seq != before.Seq {
		t.Errorf("history: got %d commits, want %d", after.Seq, before.Seq)
	}
}

// TestTooLargeIsRefused checks that the error names the field and the limit, and that the history does not change.
func TestTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.running(2)
	b.Append("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"})
	long, id := strings.Repeat("x", 300<<10), strings.Repeat("x", 5000)
	before := b.State()
	for name, do := range map[string]func() error{
		"cancelReason": func() error {
			_, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: "r", Reason: long})
			return err
		},
		"cancelOrigin": func() error {
			_, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: "r", Origin: long})
			return err
		},
		"cancelID": func() error {
			_, _, err := b.Host.Cancel(t.Context(), sid, "t1", api.CancelRequest{ID: id})
			return err
		},
		"approvalReason": func() error {
			return b.Host.Approve(t.Context(), sid, events.ToolApprovalGiven{Effect: "t1/0/0", Reason: long})
		},
		"approvalBy": func() error {
			return b.Host.Approve(t.Context(), sid, events.ToolApprovalGiven{Effect: "t1/0/0", By: long})
		},
		"resultCode": func() error {
			return b.Host.ResolveTool(t.Context(), sid, "t1/0/1", events.ToolResult{Code: long})
		},
		"submitPlugins": func() error {
			req := ask("t2", "go")
			req.Input.Plugins = map[string]string{"p": long}
			_, err := b.Host.Submit(t.Context(), sid, req)
			return err
		},
		"scheduledPlugins": func() error {
			req := ask("t2", "go")
			req.Input.Plugins = map[string]string{"p": long}
			_, err := b.Host.SubmitAt(t.Context(), sid, soon, req)
			return err
		},
		"resultAt": func() error {
			return b.Host.ResolveAt(t.Context(), sid, "t1/0/1", soon, events.ToolResult{Code: long})
		},
		"injectID": func() error {
			_, err := b.Host.Inject(t.Context(), sid, api.InjectRequest{ID: events.InputID(id), Parts: api.Ask("x").Input.Parts})
			return err
		},
		"turnID": func() error {
			_, err := b.Host.Submit(t.Context(), sid, ask(events.TurnID(id), "go"))
			return err
		},
	} {
		err := do()
		field, ok := errors.AsType[*events.FieldError](err)
		if !ok || field.Field == "" || !errors.Is(err, events.ErrTooLarge) && !errors.Is(err, events.ErrInvalid) && !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("%s: got %.200v, want the field and the limit", name, err)
		} else {
			t.Logf("%s: %.200v", name, err)
		}
		b.unchanged(before, name)
	}
}

// TestIDsOfClients uses client ids in the form of ids that the runtime derives: each is a separate turn.
func TestIDsOfClients(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := []events.TurnID{"timer-x", "wake-x", "answer-x", "timer-t1", "wake-monitor-m-1", "t1-frame-1", "t1", "due", "turn"}
	for _, id := range ids {
		_, err := b.Host.Submit(t.Context(), sid, ask(id, string(id)))
		runtest.WantError(t, string(id), err, nil)
		_, err = b.Host.Inject(t.Context(), sid, api.InjectRequest{ID: events.InputID(id), Parts: api.Ask("x").Input.Parts})
		runtest.WantError(t, fmt.Sprintf("input %s", id), err, nil)
		later := "later-" + id
		_, err = b.Host.SubmitAt(t.Context(), sid, soon, ask(later, string(later)))
		runtest.WantError(t, string(later), err, nil)
	}
	s := b.State()
	if len(s.Queue) != len(ids) || len(s.Inputs) != len(ids) || len(s.Scheduled) != len(ids) {
		t.Errorf("got %d turns, %d inputs and %d scheduled, want %d of each", len(s.Queue), len(s.Inputs), len(s.Scheduled), len(ids))
	}
	for i, q := range s.Queue {
		runtest.Equal(t, fmt.Sprintf("place %d", i), q.ID, ids[i])
	}
}
