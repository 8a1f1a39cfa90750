package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestOversizedRequestsAreRefused sends requests of sizes around every limit while a turn of another client waits. A request
// that is too large is refused with the field and the limit, without an effect. An accepted one ends, and so does
// the other turn.
func TestOversizedRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role == events.RoleUser && last.Text() == "go" {
			return harness.Reply(harness.Call("k", "add", `{"A":1,"B":2}`), harness.Call("p", "later", `{}`))(ctx, req)
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	later := harness.PluginOf("later", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
	})
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{(&harness.Approver{}).Factory(events.EffectsNonIdempotent), later}})
	runtest.WantError(t, "plugins", err, nil)
	n := f.Join(workers.Config{Plugins: builder})
	transports := map[string]apiOperations{"host": n.Host(), "client": f.Dial(), "http": overHTTP{f.ServeHTTP(httpapi.Config{})}}
	for what, tc := range tooLong {
		for transport, by := range transports {
			if transport == "http" && tc.inner {
				continue // it has no such field
			}
			if transport == "client" && what == "approve_by" {
				continue // the name that a client sends is ignored
			}
			accepted, refused := 0, 0
			for n, size := range []int{1, tc.limit - tc.limit/8, tc.limit - 1, tc.limit, tc.limit + 1, tc.limit + 200, 2 * tc.limit, 3 * tc.limit} {
				id := events.SessionID(fmt.Sprintf("%s-%s-%d", transport, what, n))
				if requestsWhileBusy(f, id, fmt.Sprintf("%s by %s of %d", what, transport, size), func() error { return tc.ask(f.Ctx, by, id, size) }) {
					accepted++
				} else {
					refused++
				}
			}
			if accepted == 0 || refused < 3 {
				t.Errorf("%s by %s: %d taken, %d refused, want the small ones taken and the large ones refused", what, transport, accepted, refused)
			}
		}
	}
}

// requestsWhileBusy sends a request while a turn waits, and reports whether it was accepted.
func requestsWhileBusy(f *harness.Fleet, id events.SessionID, what string, send func() error) (accepted bool) {
	f.T.Helper()
	f.Open(api.CreateRequest{ID: id})
	f.StartTurn(id, "t1", harness.Text("go"))
	f.AwaitState(id, "question", harness.HasAsk)
	f.AwaitUnqueued(id)
	before := f.LastSeq(id)
	err := send()
	if err != nil {
		field, ok := errors.AsType[*events.FieldError](err)
		if !ok || field.Field == "" || !strings.Contains(field.Reason, "limit") && !strings.Contains(field.Reason, " to ") {
			f.T.Errorf("%s: got %v, want the field and its limit", what, err)
		}
		runtest.Equal(f.T, "commits after "+what, f.LastSeq(id), before)
	}
	_ = f.AnswerApproval(f.Host, id, true) // unless the question has an answer, or its turn was cancelled
	_ = f.ResolveTool(f.Ctx, id, "t1/0/1", events.ToolResult{Outcome: events.OutcomeSuccess, Text: "late"})
	if end := f.AwaitTurn(id, "t1").End; end != events.EndFinished && !strings.HasPrefix(what, "cancel") {
		f.T.Errorf("%s: got end %s, want %s", what, end, events.EndFinished)
	}
	f.AwaitUnqueued(id)
	harness.VerifyHistory(f.T, f.Bus, id)
	return err == nil
}

// overHTTP sends requests over HTTP, without the fields that only Go has.
type overHTTP struct{ d *harness.HTTP }

func (h overHTTP) post(id events.SessionID, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a := h.d.Send("writer", "POST", "/v1/sessions/"+string(id)+path, string(data))
	if a.Status < 400 {
		return nil
	}
	var problem struct {
		Code, Detail string
		Details      struct{ Field, Reason string }
	}
	if err := json.Unmarshal(a.Body, &problem); err != nil {
		return err
	}
	if problem.Details.Field == "" {
		return errors.New(string(a.Body))
	}
	return &events.FieldError{Field: problem.Details.Field, Reason: problem.Details.Reason, Err: events.ErrInvalid}
}

func (h overHTTP) Submit(_ context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, h.post(id, "/turns", httpbody.NewTurn{ID: req.ID, Parts: harness.PartsJSON(req.Input.Parts)})
}

func (h overHTTP) SubmitAt(_ context.Context, id events.SessionID, at time.Time, req api.TurnRequest) (events.TurnID, error) {
	return req.ID, h.post(id, "/turns", httpbody.NewTurn{ID: req.ID, Parts: harness.PartsJSON(req.Input.Parts), At: events.MillisOf(at)})
}

func (h overHTTP) Inject(_ context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error) {
	return req.ID, h.post(id, "/inputs", httpbody.NewInput{ID: req.ID, Parts: harness.PartsJSON(req.Parts)})
}

func (h overHTTP) Approve(_ context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	return h.post(id, "/approvals", map[string]any{"call": answer.Effect, "granted": answer.Granted, "reason": answer.Reason})
}

func (h overHTTP) ResolveTool(_ context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	return h.post(id, "/results", httpbody.CallResult{Call: key, Text: result.Text, Outcome: httpbody.GivenOutcome(result.Outcome), Code: result.Code})
}

func (h overHTTP) Cancel(_ context.Context, id events.SessionID, turn events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error) {
	return "", req, h.post(id, "/turns/"+string(turn)+"/cancel", httpbody.CancelTurn{ID: req.ID, Reason: req.Reason})
}
