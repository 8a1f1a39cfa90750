package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestRefusedAtTheDoor makes requests of sizes around every limit while a turn
// of another client waits. What is too large is refused with the field and the
// limit, and leaves no trace. What is taken ends. So does the other turn.
func TestRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == events.RoleUser && last.Text() == "go" {
			return reply(call("k", "add", `{"A":1,"B":2}`), call("p", "later", `{}`))(ctx, req)
		}
		return reply(text("done"))(ctx, req)
	}
	later := declares("later", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
	})
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{(&asker{}).factory(events.EffectsNonIdempotent), later}})
	must(t, "plugins", err, nil)
	n := f.join(workers.Config{Plugins: stack})
	doors := map[string]doorway{"host": n.Host(), "client": f.dialled(), "http": overHTTP{f.door(httpapi.Config{})}}
	for what, tc := range tooLong {
		for door, by := range doors {
			if door == "http" && tc.inner {
				continue // it has no such field
			}
			if door == "client" && what == "approve_by" {
				continue // what a client calls itself is not taken
			}
			taken, refused := 0, 0
			for n, size := range []int{1, tc.limit - tc.limit/8, tc.limit - 1, tc.limit, tc.limit + 1, tc.limit + 200, 2 * tc.limit, 3 * tc.limit} {
				id := events.SessionID(fmt.Sprintf("%s-%s-%d", door, what, n))
				if f.asksBeside(id, fmt.Sprintf("%s by %s of %d", what, door, size), func() error { return tc.ask(f.ctx, by, id, size) }) {
					taken++
				} else {
					refused++
				}
			}
			if taken == 0 || refused < 3 {
				t.Errorf("%s by %s: %d taken, %d refused, want the small ones taken and the large ones refused", what, door, taken, refused)
			}
		}
	}
}

// asksBeside asks beside a turn that waits, and reports whether that was taken.
func (f *fleet) asksBeside(id events.SessionID, what string, ask func() error) (taken bool) {
	f.t.Helper()
	f.open(api.CreateRequest{ID: id})
	f.submit(id, "t1", text("go"))
	f.await(id, "question", hasAsk)
	f.unqueued(id)
	before := f.last(id)
	err := ask()
	if err != nil {
		field, ok := errors.AsType[*events.FieldError](err)
		if !ok || field.Field == "" || !strings.Contains(field.Reason, "limit") && !strings.Contains(field.Reason, " to ") {
			f.t.Errorf("%s: got %v, want the field and its limit", what, err)
		}
		equal(f.t, "commits after "+what, f.last(id), before)
	}
	_ = f.approve(f.Host, id, true) // unless the question has an answer, or its turn was cancelled
	_ = f.ResolveTool(f.ctx, id, "t1/0/1", events.ToolResult{Outcome: events.OutcomeSuccess, Text: "late"})
	if end := f.ended(id, "t1").End; end != events.EndFinished && !strings.HasPrefix(what, "cancel") {
		f.t.Errorf("%s: got end %s, want %s", what, end, events.EndFinished)
	}
	f.unqueued(id)
	verified(f.t, f.bus, id)
	return err == nil
}

// overHTTP asks over HTTP. It has no fields for what only Go has.
type overHTTP struct{ d *door }

func (h overHTTP) post(id events.SessionID, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a := h.d.ask("writer", "POST", "/v1/sessions/"+string(id)+path, string(data))
	if a.status < 400 {
		return nil
	}
	var problem struct {
		Code, Detail string
		Details      struct{ Field, Reason string }
	}
	if err := json.Unmarshal(a.body, &problem); err != nil {
		return err
	}
	if problem.Details.Field == "" {
		return errors.New(string(a.body))
	}
	return &events.FieldError{Field: problem.Details.Field, Reason: problem.Details.Reason, Err: events.ErrInvalid}
}

func given(list []events.Part) (parts []httpapi.GivenPart) {
	for _, p := range list {
		part := httpapi.GivenPart{Type: httpapi.GivenType(p.Kind), Text: p.Text, MediaType: p.MediaType}
		if !p.Blob.IsZero() {
			part.Blob = (*httpapi.Blob)(&p.Blob)
		}
		parts = append(parts, part)
	}
	return parts
}

func (h overHTTP) Submit(_ context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, h.post(id, "/turns", httpapi.NewTurn{ID: req.ID, Parts: given(req.Input.Parts)})
}

func (h overHTTP) SubmitAt(_ context.Context, id events.SessionID, at time.Time, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, h.post(id, "/turns", httpapi.NewTurn{ID: req.ID, Parts: given(req.Input.Parts), At: events.MillisOf(at)})
}

func (h overHTTP) Inject(_ context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error) {
	return req.ID, h.post(id, "/inputs", httpapi.NewInput{ID: req.ID, Parts: given(req.Parts)})
}

func (h overHTTP) Approve(_ context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	return h.post(id, "/approvals", map[string]any{"call": answer.Effect, "granted": answer.Granted, "reason": answer.Reason})
}

func (h overHTTP) ResolveTool(_ context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	return h.post(id, "/results", httpapi.CallResult{Call: key, Text: result.Text, Outcome: httpapi.GivenOutcome(result.Outcome), Code: result.Code})
}

func (h overHTTP) Cancel(_ context.Context, id events.SessionID, turn events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error) {
	return "", req, h.post(id, "/turns/"+string(turn)+"/cancel", httpapi.CancelTurn{ID: req.ID, Reason: req.Reason})
}
