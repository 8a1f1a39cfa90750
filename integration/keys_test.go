package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// keyedAsk is an operation that takes a key, with a request that appends in a
// session of [bundle.keyable] (0), one with another target or body (1), and one with yet another (2).
type keyedAsk struct {
	op      operation.Name
	running bool // it needs a turn that runs
	host    func(ctx context.Context, h *session.Host, id events.SessionID, n int) (any, error)
	nats    func(n int) any
	http    func(n int) [3]string // method, path and body; nil: HTTP has no such operation
}

// nth takes a value of several.
func nth[T any](n int, list ...T) T { return list[n] }

// keyedAsks is every operation that makes a session or may change one, but those that clients never repeat.
func keyedAsks() []keyedAsk {
	type object = map[string]any
	var (
		reason = func(n int) string { return nth(n, "done", "over", "gone") }
		config = func(n int) events.Config {
			return events.Config{Model: nth(n, "m2", "m3", "m2"), Effort: nth(n, "", "", "high")}
		}
		cancel = func(n int) api.CancelArgs {
			return api.CancelArgs{Turn: nth[events.TurnID](n, "t1", "t2", "t1"), Request: api.CancelRequest{ID: "c1", Reason: nth(n, "", "", "x")}}
		}
		input = func(n int) events.InputID { return nth[events.InputID](n, "i1", "i2", "i3") }
		nodes = func(n int) []api.AppendNode {
			return []api.AppendNode{{Kind: events.NodePlugin, Type: nth(n, "a", "b", "a"), Body: nth(n, []byte("1"), []byte("1"), []byte("2"))}}
		}
		node  = func(n int) events.NodeID { return nth[events.NodeID](n, "n1", "", "n2") }
		frame = func(n int) api.FrameRequest {
			return api.FrameRequest{Frame: nth[events.FrameID](n, "f1", "f2", "f1"), Reason: nth(n, "", "", "x")}
		}
		rewrite = func(n int) []api.RewriteMessage {
			return []api.RewriteMessage{{Message: events.Message{ID: "x1", Role: events.RoleUser, Parts: []events.Part{text(reason(n))}}}}
		}
		answer = func(n int) events.ToolApprovalGiven {
			return events.ToolApprovalGiven{Effect: nth[events.EffectID](n, "t1/0/0", "t1/0/1", "t1/0/0"), Granted: n != 2}
		}
		result = func(n int) api.ResolveArgs {
			return api.ResolveArgs{Key: nth[events.EffectID](n, "t1/0/2", "t1/0/3", "t1/0/2"), Result: events.ToolResult{Outcome: events.OutcomeSuccess, Text: nth(n, "a", "a", "b")}}
		}
		tools = func(n int) api.ToolState {
			return api.ToolState{Tools: nth(n, nil, []events.ToolEntry{{Name: "x", Orphan: true}}, []events.ToolEntry{{Name: "y", Orphan: true}})}
		}
		levels = func(n int) api.AvailabilityArgs {
			return api.AvailabilityArgs{Names: []string{}, Level: events.Overridden(nth(n, events.AvailOff, events.AvailCallable, events.AvailSearchable))}
		}
		monitor = func(n int) events.MonitorID { return nth[events.MonitorID](n, "m1", "m2", "m3") }
		spec    = func(n int) events.MonitorSpec {
			return events.MonitorSpec{ID: nth[events.MonitorID](n, "m4", "m5", "m4"), Command: nth(n, "true", "true", "false")}
		}
		task  = func(n int) events.TaskID { return events.TaskOf(monitor(n)) }
		grant = func(n int) api.GrantRequest {
			return api.GrantRequest{To: nth(n, "guest", "other", "guest"), Rights: nth(n, []events.SessionRight{"read"}, []events.SessionRight{"read"}, []events.SessionRight{"write"})}
		}
		submit = func(n int) api.TurnRequest { return turnWith("", []events.Part{text(nth(n, "a", "b", "c"))}) }
		inject = func(n int) api.InjectRequest {
			return api.InjectRequest{Parts: []events.Part{text(nth(n, "a", "b", "c"))}}
		}
		registered = func(n int) api.TaskRequest {
			return api.TaskRequest{ID: nth[events.TaskID](n, "k4", "k5", "k4"), Producer: nth(n, "", "", "me")}
		}
		outside   = func(n int) events.TaskID { return nth[events.TaskID](n, "k1", "k2", "k3") }
		extension = func(n int) events.Extension {
			return events.Extension{Type: nth(n, "x", "y", "z"), Body: []byte("{}")}
		}
		replaced = func(n int) []events.Extension {
			return nth(n, []events.Extension{}, []events.Extension{extension(0)}, []events.Extension{extension(1)})
		}
		extensions = func(list []events.Extension) []object {
			out := []object{}
			for _, e := range list {
				out = append(out, object{"type": e.Type, "body": json.RawMessage(e.Body)})
			}
			return out
		}
		aside = func(n int) plugin.CompletionRequest {
			return plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, reason(n))}}
		}
		labels = func(n int) map[string]string { return map[string]string{"a": reason(n)} }
		later  = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	)
	in := func(v any) string { data, _ := json.Marshal(v); return string(data) } //nolint:errchkjson // of texts and lists
	send := func(method, path string, body any) [3]string {
		if body == nil {
			return [3]string{method, path, ""}
		}
		return [3]string{method, path, in(body)}
	}
	none := func(err error) (any, error) { return nil, err }
	return []keyedAsk{
		{
			operation.Close.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.CloseSession(c, id, reason(n)))
			},
			func(n int) any { return new(reason(n)) }, func(n int) [3]string { return send("DELETE", "?reason="+reason(n), nil) },
		},
		{operation.Configure.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			return none(h.Configure(c, id, api.ConfigureRequest{Change: func(events.Config) events.Config { return config(n) }}))
		}, func(n int) any { return &api.ConfigureArgs{Current: config(n)} }, func(n int) [3]string {
			return send("PATCH", "", object{"model": config(n).Model, "effort": config(n).Effort})
		}},
		{operation.Cancel.Name, true, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			receipt, first, err := h.Cancel(c, id, cancel(n).Turn, cancel(n).Request)
			return []any{receipt, first}, err
		}, func(n int) any { return new(cancel(n)) }, func(n int) [3]string {
			return send("POST", "/turns/"+string(cancel(n).Turn)+"/cancel", object{"reason": cancel(n).Request.Reason})
		}},
		{
			operation.CancelInputs.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.CancelInputs(c, id, input(n))
			},
			func(n int) any { return &[]events.InputID{input(n)} }, func(n int) [3]string { return send("DELETE", "/inputs/"+string(input(n)), nil) },
		},
		{operation.CancelInputsFrom.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			receipt, list, err := h.CancelInputsFrom(c, id, input(n))
			return []any{receipt, list}, err
		}, func(n int) any { return new(input(n)) }, func(n int) [3]string { return send("DELETE", "/inputs/"+string(input(n))+"?following=true", nil) }},
		{
			operation.Branch.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.BranchTo(c, id, node(n)))
			},
			func(n int) any { return new(node(n)) }, func(n int) [3]string { return send("POST", "/branch", object{"node": node(n)}) },
		},
		{
			operation.OpenFrame.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.OpenFrame(c, id, frame(n))
			},
			func(n int) any { return new(frame(n)) }, func(n int) [3]string {
				return send("POST", "/frames", object{"id": frame(n).Frame, "reason": frame(n).Reason})
			},
		},
		{operation.Rewrite.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			return none(h.Rewrite(c, id, []api.RewriteMessage{{Message: rewrite(n)[0].Message}}))
		}, func(n int) any { return new(rewrite(n)) }, nil},
		{
			operation.Approve.Name, true, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.Approve(c, id, answer(n)))
			},
			func(n int) any { return new(answer(n)) }, func(n int) [3]string {
				return send("POST", "/approvals", object{"call": answer(n).Effect, "granted": answer(n).Granted})
			},
		},
		{
			operation.ResolveTool.Name, true, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.ResolveTool(c, id, result(n).Key, result(n).Result))
			},
			func(n int) any { return new(result(n)) }, func(n int) [3]string {
				return send("POST", "/results", object{"call": result(n).Key, "text": result(n).Result.Text})
			},
		},
		{
			operation.ApplyToolState.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.ApplyToolState(c, id, tools(n))
			},
			func(n int) any { return new(tools(n)) }, nil,
		},
		{operation.SetAvailability.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			return h.SetToolsAvailability(c, id, levels(n).Names, levels(n).Level)
		}, func(n int) any { return new(levels(n)) }, func(n int) [3]string {
			return send("PATCH", "/tools", object{"names": levels(n).Names, "level": levels(n).Level})
		}},
		{
			operation.ReplaceExtensions.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.ReplaceExtensions(c, id, replaced(n)))
			},
			func(n int) any { return new(replaced(n)) }, func(n int) [3]string {
				return send("PUT", "/extensions", object{"extensions": extensions(replaced(n))})
			},
		},
		{
			operation.AddToolSource.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.AddToolSource(c, id, reason(n))
			},
			func(n int) any { return new(reason(n)) }, func(n int) [3]string { return send("PUT", "/tools/sources/"+reason(n), nil) },
		},
		{
			operation.RemoveToolSource.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.RemoveToolSource(c, id, reason(n))
			},
			func(n int) any { return new(reason(n)) }, func(n int) [3]string { return send("DELETE", "/tools/sources/"+reason(n), nil) },
		},
		{
			operation.RefreshCatalog.Name, false, func(c context.Context, h *session.Host, id events.SessionID, _ int) (any, error) {
				return h.RefreshCatalog(c, id)
			},
			func(int) any { return &struct{}{} }, func(int) [3]string { return send("POST", "/tools/refresh", nil) },
		},
		{operation.CancelTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			t, err := h.CancelTask(c, id, task(n))
			return t.State, err
		}, func(n int) any { return new(task(n)) }, func(n int) [3]string { return send("POST", "/tasks/"+string(task(n))+"/cancel", nil) }},
		{
			operation.StartMonitor.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.StartMonitor(c, id, spec(n)))
			},
			func(n int) any { return new(spec(n)) }, func(n int) [3]string {
				return send("PUT", "/monitors/"+string(spec(n).ID), object{"command": spec(n).Command})
			},
		},
		{
			operation.StopMonitor.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.StopMonitor(c, id, monitor(n)))
			},
			func(n int) any { return new(monitor(n)) }, func(n int) [3]string { return send("DELETE", "/monitors/"+string(monitor(n)), nil) },
		},
		{
			operation.TakeUpdates.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.TakeMonitorUpdatesTo(c, id, int64(9+n))
			},
			func(n int) any { return new(int64(9 + n)) }, func(int) [3]string { return send("POST", "/monitors/updates", nil) },
		},
		{
			operation.Grant.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.Grant(c, id, grant(n)))
			},
			func(n int) any { return new(grant(n)) }, func(n int) [3]string { return send("PUT", "/grants/"+grant(n).To, object{"rights": grant(n).Rights}) },
		},
		{
			operation.Submit.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.Submit(c, id, submit(n))
			},
			func(n int) any { return new(submit(n)) }, func(n int) [3]string {
				return send("POST", "/turns", httpapi.NewTurn{Parts: given(submit(n).Input.Parts)})
			},
		},
		{
			operation.SubmitAt.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.SubmitAt(c, id, later, submit(n))
			},
			func(n int) any { return &api.SubmitAtArgs{At: events.MillisOf(later), Request: submit(n)} },
			func(n int) [3]string {
				return send("POST", "/turns", httpapi.NewTurn{Parts: given(submit(n).Input.Parts), At: events.MillisOf(later)})
			},
		},
		{
			operation.Inject.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.Inject(c, id, inject(n))
			},
			func(n int) any { return new(inject(n)) }, func(n int) [3]string { return send("POST", "/inputs", httpapi.NewInput{Parts: given(inject(n).Parts)}) },
		},
		{operation.AppendNodes.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
			return h.AppendNodes(c, id, api.AppendNodesRequest{Nodes: nodes(n), IdempotencyKey: string(id)})
		}, func(n int) any { return &api.AppendNodesRequest{Nodes: nodes(n)} }, func(n int) [3]string {
			return send("POST", "/nodes", object{"nodes": []object{{"kind": "plugin", "type": nodes(n)[0].Type, "body": json.RawMessage(nodes(n)[0].Body)}}})
		}},
		{
			operation.Compact.Name, false, func(c context.Context, h *session.Host, id events.SessionID, _ int) (any, error) {
				return h.Compact(c, id)
			},
			func(int) any { return &struct{}{} }, func(int) [3]string { return send("POST", "/compact", nil) },
		},
		{
			operation.RegisterTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.RegisterTask(c, id, registered(n))
			},
			func(n int) any { return new(registered(n)) }, func(n int) [3]string {
				return send("PUT", "/tasks/"+string(registered(n).ID), object{"producer": registered(n).Producer})
			},
		},
		{
			operation.ProgressTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.ProgressTask(c, id, outside(n), reason(n))
			},
			func(n int) any { return &api.ProgressArgs{Task: outside(n), Message: reason(n)} }, func(n int) [3]string {
				return send("POST", "/tasks/"+string(outside(n))+"/progress", object{"message": reason(n)})
			},
		},
		{
			operation.EndTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.EndTask(c, id, outside(n), events.TaskFailed, reason(n))
			},
			func(n int) any {
				return &api.EndTaskArgs{Task: outside(n), State: events.TaskFailed, Summary: reason(n)}
			}, func(n int) [3]string {
				return send("POST", "/tasks/"+string(outside(n))+"/end", object{"state": "failed", "summary": reason(n)})
			},
		},
		{
			operation.RequestCancel.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.RequestCancelTask(c, id, outside(n), reason(n))
			},
			func(n int) any { return &api.RequestCancelArgs{Task: outside(n), Reason: reason(n)} }, func(n int) [3]string {
				return send("POST", "/tasks/"+string(outside(n))+"/stop", object{"reason": reason(n)})
			},
		},
		{
			operation.CancelTasks.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.CancelTasks(c, id, []events.TaskID{outside(n)})
			},
			func(n int) any { return &[]events.TaskID{outside(n)} }, func(n int) [3]string {
				return send("POST", "/tasks/cancel", object{"keep": []events.TaskID{outside(n)}})
			},
		},
		{
			operation.TransferTasks.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.TransferAsyncHandles(c, id, "base", []events.TaskID{outside(n)}))
			},
			func(n int) any { return &api.TransferArgs{To: "base", Tasks: []events.TaskID{outside(n)}} }, func(n int) [3]string {
				return send("POST", "/tasks/transfer", object{"to": "base", "tasks": []events.TaskID{outside(n)}})
			},
		},
		{
			operation.TakeFirstInput.Name, false, func(c context.Context, h *session.Host, id events.SessionID, _ int) (any, error) {
				return h.TakeFirstTurnInput(c, id)
			},
			func(int) any { return &struct{}{} }, func(int) [3]string { return send("POST", "/first-input", nil) },
		},
		{
			operation.ProtocolOptions.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.SetProtocolOptions(c, id, json.RawMessage(in(reason(n))), false))
			},
			func(n int) any { return &api.ProtocolOptionsArgs{Options: []byte(in(reason(n)))} }, func(n int) [3]string {
				return send("PUT", "/options", object{"options": reason(n)})
			},
		},
		{
			operation.ApplyExtension.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return none(h.ApplyExtension(c, id, extension(n)))
			},
			func(n int) any { return new(extension(n)) }, func(n int) [3]string {
				return send("POST", "/extensions", object{"type": extension(n).Type, "body": object{}})
			},
		},
		{
			operation.Complete.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.Complete(c, id, aside(n), "me")
			},
			func(n int) any { return &operation.CompleteArgs{Request: aside(n), Source: "me"} }, func(n int) [3]string {
				return send("POST", "/completions", object{"source": "me", "messages": []object{{"role": "user", "parts": given(aside(n).Messages[0].Parts)}}})
			},
		},
		{operation.Create.Name, false, func(c context.Context, h *session.Host, _ events.SessionID, n int) (any, error) {
			return h.Create(c, api.CreateRequest{Labels: labels(n)})
		}, func(n int) any { return &api.CreateArgs{Request: api.CreateRequest{Labels: labels(n)}} }, func(n int) [3]string {
			return send("POST", "/v1/sessions", object{"labels": labels(n)})
		}},
		{forking, false, func(c context.Context, h *session.Host, _ events.SessionID, n int) (any, error) {
			return h.Fork(c, "base", api.CreateRequest{Labels: labels(n)})
		}, func(n int) any {
			return &api.CreateArgs{Request: api.CreateRequest{Start: api.StartExisting, From: "base", PathOnly: true, Labels: labels(n)}}
		}, func(n int) [3]string { return send("POST", "/v1/sessions/base/fork", object{"labels": labels(n)}) }},
	}
}

// forking is [operation.Create.Name] from another session, which has a path of its own over HTTP.
const forking operation.Name = "fork"

// makes reports whether a request makes the session that has its key as id.
func (k *keyedAsk) makes() bool { return k.op == operation.Create.Name || k.op == forking }

// keyable makes a session in which every request of [keyedAsks] appends.
func (b *bundle) keyable(id events.SessionID, running bool) {
	b.t.Helper()
	first := plugin.Say(events.RoleUser, "begin")
	b.open(api.CreateRequest{ID: id, First: &first, Nodes: []api.AppendNode{{ID: "n1", Kind: events.NodePlugin, Type: "x"}, {ID: "n2", Kind: events.NodePlugin, Type: "x"}, {ID: "n3", Kind: events.NodePlugin, Type: "x"}}})
	for _, m := range []events.MonitorID{"m1", "m2", "m3"} {
		must(b.t, "monitor", b.StartMonitor(b.ctx, id, events.MonitorSpec{ID: m, Command: "true"}), nil)
	}
	for _, k := range []events.TaskID{"k1", "k2", "k3"} {
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: k})
		must(b.t, "task", err, nil)
	}
	for _, in := range []events.InputID{"i1", "i2", "i3"} {
		_, err := b.Inject(b.ctx, id, api.InjectRequest{ID: in, Parts: []events.Part{text("x")}})
		must(b.t, "inject", err, nil)
	}
	b.appended(id, "", &events.MonitorReported{Monitor: "m1", Lines: []events.MonitorLine{{Sequence: 1, Text: "x"}}})
	if !running {
		return
	}
	b.submit(id, "t1", text("go"))
	b.submit(id, "t2", text("go"))
	prompt, err := b.state(id).Prompt()
	must(b.t, "prompt", err, nil)
	reply := &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse}
	for range 4 {
		reply.Parts = append(reply.Parts, events.Part{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte("{}")})
	}
	b.appended(id, "t1", &events.TurnStarted{Attempt: 1, Worker: "w1"}, reply, &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"},
		&events.ToolApprovalAsked{Effect: "t1/0/1", Tool: "t"}, &events.ToolPended{Calls: []int64{2, 3}})
}

// appended has a worker append what happened.
func (b *bundle) appended(id events.SessionID, turn events.TurnID, list ...events.Payload) {
	b.t.Helper()
	at := b.state(id).Seq
	c := &events.Commit{ID: events.CommitID(fmt.Sprint(id, "-", at)), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	_, err := b.bus.Log().Append(b.ctx, c, at)
	must(b.t, "append", err, nil)
}

// keyedDoor makes a request as one of two callers, with the session's id as its key, and gives the answer and the code of the error.
type keyedDoor func(caller int, k keyedAsk, id events.SessionID, n int) (answer, code string)

// TestKeyBelongsToItsRequest uses the key of every operation again: for the
// same, which is answered as the first time, and for every operation by either
// caller, with every target and body, which are refused. Nothing is appended by any of them.
func TestKeyBelongsToItsRequest(t *testing.T) {
	t.Parallel()
	doors := map[string]func(t *testing.T) (*bundle, keyedDoor){"host": hostWithKeys, "nats": natsWithKeys, "http": httpWithKeys}
	for name, open := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, ask := open(t)
			b.open(api.CreateRequest{ID: "base"})
			all := slices.DeleteFunc(keyedAsks(), func(k keyedAsk) bool { return name == "http" && k.http == nil })
			for _, k := range all {
				if slices.Contains([]operation.Name{operation.Compact.Name, operation.ApplyExtension.Name, operation.Complete.Name, operation.AddToolSource.Name, operation.RemoveToolSource.Name}, k.op) {
					continue // appends with a compactor, a protocol, a model or a source only, see TestServiceCopiesAtOnce
				}
				id, before := events.SessionID(k.op), events.Seq(0)
				if !k.makes() {
					b.keyable(id, k.running)
					before = b.last(id)
				}
				first, code := ask(0, k, id, 0)
				equal(t, string(k.op), code, "")
				if b.last(id) == before {
					t.Errorf("%s: got no commit", k.op)
				}
				before = b.last(id)
				again, code := ask(0, k, id, 0)
				equal(t, string(k.op)+" again", code+" "+again, " "+first)
				for _, other := range all {
					for caller := range 2 {
						for n := range 3 {
							bare := k.op == operation.TakeFirstInput.Name || k.op == operation.RefreshCatalog.Name || name == "http" && k.op == operation.TakeUpdates.Name // which has no body there
							same := other.op == k.op && caller == 0 && (n == 0 || bare)
							if _, code := ask(caller, other, id, n); !same && code != "different_content" {
								t.Errorf("%s, then %s, caller %d, body %d: got %q, want it refused", k.op, other.op, caller, n, code)
							}
						}
					}
				}
				equal(t, "commits after "+string(k.op), b.last(id), before)
			}
		})
	}
}

// TestKeysOfAll holds the table against all operations that change anything.
func TestKeysOfAll(t *testing.T) {
	t.Parallel()
	var have, want []string
	for _, k := range keyedAsks() {
		have = append(have, string(k.op))
	}
	for right, ops := range needs() {
		if right != api.RightRead {
			want = append(want, ops...)
		}
	}
	want = slices.DeleteFunc(want, func(op string) bool {
		return op == string(operation.PutBlob.Name) || op == string(operation.InvokeAction.Name)
	})
	want = append(want, string(forking))
	slices.Sort(have)
	slices.Sort(want)
	equalLists(t, "operations", have, want)
}

// hostWithKeys asks two hosts in turns, so that a repeat is the other's.
func hostWithKeys(t *testing.T) (*bundle, keyedDoor) {
	t.Helper()
	b := setupIdle(t)
	hosts, asked := []*session.Host{b.Host, b.otherHost()}, 0
	return b, func(caller int, k keyedAsk, id events.SessionID, n int) (string, string) {
		ctx := api.WithAsked(b.ctx, api.Asked{Actor: nth(caller, "one", "two"), Key: string(id)})
		asked++
		got, err := k.host(ctx, hosts[asked%2], id, n)
		if err != nil {
			code, _ := api.Code(err)
			return "", code
		}
		return fmt.Sprint(got), ""
	}
}

func natsWithKeys(t *testing.T) (*bundle, keyedDoor) {
	t.Helper()
	d := natsDoorOf(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}, "host@acme": {Scope: api.ScopeAdmin}}})
	return d.bundle, func(caller int, k keyedAsk, id events.SessionID, n int) (string, string) {
		op, r := k.op, api.Request{Session: id, Key: string(id)}
		if k.makes() {
			op, r.Session = operation.Create.Name, ""
		}
		a := d.askRaw(nth(caller, "alice@acme", "host@acme"), op, r, k.nats(n))
		return fmt.Sprint(a.Seq, " ", string(a.Body)), a.Error.Code
	}
}

func httpWithKeys(t *testing.T) (*bundle, keyedDoor) {
	t.Helper()
	d := setupIdle(t).door(httpapi.Config{})
	return d.bundle, func(caller int, k keyedAsk, id events.SessionID, n int) (string, string) {
		req := k.http(n)
		if !k.makes() {
			req[1] = "/v1/sessions/" + string(id) + req[1]
		}
		a := d.ask(nth(caller, "admin", "root"), req[0], req[1], req[2], "Idempotency-Key", string(id))
		if a.status >= 400 {
			return "", a.text("code")
		}
		return fmt.Sprint(a.status, a.header.Get("Lash-Seq"), strings.TrimSpace(string(a.body))), ""
	}
}

// TestKeyUsedAtOnce has two hosts decide requests with one key at the same time, of every pair of
// operations that need nothing to be there: one is done, and the other refused.
func TestKeyUsedAtOnce(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	hosts := []*session.Host{b.Host, b.otherHost()}
	asks := slices.DeleteFunc(keyedAsks(), func(k keyedAsk) bool {
		return !slices.Contains([]operation.Name{operation.Submit.Name, operation.SubmitAt.Name, operation.Inject.Name, operation.AppendNodes.Name, operation.OpenFrame.Name, operation.Grant.Name}, k.op)
	})
	for i, first := range asks {
		for _, second := range asks[:i] {
			id := events.SessionID(first.op + "-" + second.op)
			b.open(api.CreateRequest{ID: id})
			before, errs := b.last(id), make([]error, 2)
			for _, h := range hosts { // both have its state at hand
				_, err := h.State(b.ctx, id)
				must(t, "state", err, nil)
			}
			var deciding sync.WaitGroup
			for n, k := range []keyedAsk{first, second} {
				deciding.Go(func() {
					_, errs[n] = k.host(api.WithAsked(b.ctx, api.Asked{Actor: "one", Key: string(id)}), hosts[n], id, 0)
				})
			}
			deciding.Wait()
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), api.ErrDifferent) {
				t.Errorf("%s and %s: got %v, want one done and one refused", first.op, second.op, errs)
			}
			equal(t, "commits of "+string(id), b.last(id), before+1)
		}
	}
}

// TestKeyOfOlderVersion repeats a request that an earlier version did, which
// recorded its key in the cause alone.
func TestKeyOfOlderVersion(t *testing.T) {
	t.Parallel()
	b, ask := hostWithKeys(t)
	b.keyable("s1", false)
	at := b.state("s1").Seq
	stopped := &events.Commit{
		ID: "c1", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorClient, ID: "one"}, Cause: "stop monitor s1",
		Events: []events.Event{events.Of("", &events.TaskEnded{Task: "monitor-m1", State: events.TaskCancelled}), events.Of("", &events.MonitorEnded{Monitor: "m1", State: events.MonitorStopped})},
	}
	_, err := b.bus.Log().Append(b.ctx, stopped, at)
	must(t, "append", err, nil)
	stop := keyedAsks()[slices.IndexFunc(keyedAsks(), func(k keyedAsk) bool { return k.op == operation.StopMonitor.Name })]
	_, code := ask(0, stop, "s1", 0)
	equal(t, "again", code, "")
	equal(t, "commits", b.last("s1"), at+1)
}

// TestKeyAfterTheTurn repeats what was asked of a turn after its end: the key finds what it led to; with another key
// the same answer to a question is no other, and a result finds no turn.
func TestKeyAfterTheTurn(t *testing.T) {
	t.Parallel()
	b, ask := hostWithKeys(t)
	want := map[operation.Name]string{operation.Approve.Name: "", operation.ResolveTool.Name: "unknown_turn", operation.Cancel.Name: ""}
	for _, k := range keyedAsks() {
		late, ok := want[k.op]
		if !ok {
			continue
		}
		id := events.SessionID(k.op)
		b.keyable(id, true)
		first, code := ask(0, k, id, 0)
		equal(t, string(k.op), code, "")
		b.appended(id, "t1", &events.TurnCompleted{End: events.EndFailed, Issue: events.Issue{Code: "x"}})
		last := b.last(id)
		again, code := ask(0, k, id, 0)
		equal(t, string(k.op)+" again", code+" "+again, " "+first)
		other, err := k.host(api.WithAsked(b.ctx, api.Asked{Actor: "one", Key: "other"}), b.Host, id, 0)
		if err == nil && k.op != operation.Approve.Name { // which says nothing
			equal(t, string(k.op)+" with another key", fmt.Sprint(other) == first, false)
		}
		code = ""
		if err != nil {
			code, _ = api.Code(err)
		}
		equal(t, string(k.op)+" with another key", code, late)
		equal(t, "commits after "+string(k.op), b.last(id), last)
	}
}
