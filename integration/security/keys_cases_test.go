package security

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// keyedCase is an operation with a key: a request that appends in a session of [keyable] (0), one with another
// target or body (1), and one with yet another (2).
type keyedCase struct {
	op      operation.Name
	running bool // it needs a turn that runs
	host    func(ctx context.Context, h *session.Host, id events.SessionID, n int) (any, error)
	nats    func(n int) any
	http    func(n int) [3]string // method, path and body; nil: HTTP has no such operation
}

// nth selects a value.
func nth[T any](n int, list ...T) T { return list[n] }

// keyedCases has every operation that makes a session or may change one, except those that clients never repeat.
func keyedCases() []keyedCase {
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
			return []api.RewriteMessage{{Message: events.Message{ID: "x1", Role: events.RoleUser, Parts: []events.Part{harness.Text(reason(n))}}}}
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
		submit = func(n int) api.TurnRequest { return turnWith("", []events.Part{harness.Text(nth(n, "a", "b", "c"))}) }
		inject = func(n int) api.InjectRequest {
			return api.InjectRequest{Parts: []events.Part{harness.Text(nth(n, "a", "b", "c"))}}
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
	return []keyedCase{
		{
			operation.CloseSession.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
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
			operation.BranchTo.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
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
		{operation.SetToolsAvailability.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
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
			operation.TakeMonitorUpdates.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
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
				return send("POST", "/turns", httpbody.NewTurn{Parts: harness.PartsJSON(submit(n).Input.Parts)})
			},
		},
		{
			operation.SubmitAt.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.SubmitAt(c, id, later, submit(n))
			},
			func(n int) any { return &api.SubmitAtArgs{At: events.MillisOf(later), Request: submit(n)} },
			func(n int) [3]string {
				return send("POST", "/turns", httpbody.NewTurn{Parts: harness.PartsJSON(submit(n).Input.Parts), At: events.MillisOf(later)})
			},
		},
		{
			operation.Inject.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.Inject(c, id, inject(n))
			},
			func(n int) any { return new(inject(n)) }, func(n int) [3]string {
				return send("POST", "/inputs", httpbody.NewInput{Parts: harness.PartsJSON(inject(n).Parts)})
			},
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
			operation.EndOwnTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.EndOwnTask(c, id, outside(n), events.TaskFailed, reason(n))
			},
			func(n int) any {
				return &api.EndOwnTaskArgs{Task: outside(n), State: events.TaskFailed, Summary: reason(n)}
			}, func(n int) [3]string {
				return send("POST", "/tasks/"+string(outside(n))+"/end", object{"state": "failed", "summary": reason(n)})
			},
		},
		{
			operation.TransitionOwnTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.TransitionOwnTask(c, id, outside(n), events.TaskWaiting)
			},
			func(n int) any { return &api.TransitionArgs{Task: outside(n), State: events.TaskWaiting} }, func(n int) [3]string {
				return send("POST", "/tasks/"+string(outside(n))+"/state", object{"state": "waiting"})
			},
		},
		{
			operation.UnregisterOwnTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return nil, h.UnregisterOwnTask(c, id, outside(n))
			},
			func(n int) any { return new(outside(n)) }, func(n int) [3]string {
				return send("DELETE", "/tasks/"+string(outside(n)), nil)
			},
		},
		{
			operation.RequestCancelTask.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
				return h.RequestCancelTask(c, id, outside(n), reason(n))
			},
			func(n int) any { return &api.RequestCancelTaskArgs{Task: outside(n), Reason: reason(n)} }, func(n int) [3]string {
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
				return none(h.TransferTasks(c, id, "base", []events.TaskID{outside(n)}))
			},
			func(n int) any { return &api.TransferArgs{To: "base", Tasks: []events.TaskID{outside(n)}} }, func(n int) [3]string {
				return send("POST", "/tasks/transfer", object{"to": "base", "tasks": []events.TaskID{outside(n)}})
			},
		},
		{
			operation.TakeFirstTurnInput.Name, false, func(c context.Context, h *session.Host, id events.SessionID, _ int) (any, error) {
				return h.TakeFirstTurnInput(c, id)
			},
			func(int) any { return &struct{}{} }, func(int) [3]string { return send("POST", "/first-input", nil) },
		},
		{
			operation.SetProtocolOptions.Name, false, func(c context.Context, h *session.Host, id events.SessionID, n int) (any, error) {
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
				return send("POST", "/completions", object{"source": "me", "messages": []object{{"role": "user", "parts": harness.PartsJSON(aside(n).Messages[0].Parts)}}})
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

// makes reports whether a request makes the session whose id is its key.
func (k *keyedCase) makes() bool { return k.op == operation.Create.Name || k.op == forking }
