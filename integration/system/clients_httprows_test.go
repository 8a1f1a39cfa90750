package system

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// webRows has the operations whose JSON differs from their Go types, as a client encodes it.
func webRows() map[*operation.Row]webRow {
	task := func(name events.TaskID, body any) sent {
		return sent{vars: []string{"{task}", string(name)}, body: body}
	}
	return map[*operation.Row]webRow{
		&operation.Create.Row:       over(operation.Create, func(in api.CreateArgs) sent { return sent{body: newSession(in), named: true, id: "session"} }, func(m httpbody.Made) events.SessionID { return events.SessionID(m.ID) }),
		&operation.CloseSession.Row: over(operation.CloseSession, func(reason string) sent { return sent{query: "?reason=" + url.QueryEscape(reason)} }, silence),
		&operation.Grant.Row: over(operation.Grant, func(in api.GrantRequest) sent {
			return sent{vars: []string{"{caller}", in.To}, body: httpbody.Grant{Rights: append([]events.SessionRight{}, in.Rights...)}}
		}, silence),
		&operation.SetProtocolOptions.Row: over(operation.SetProtocolOptions, body(func(in api.ProtocolOptionsArgs) httpbody.ProtocolOptions {
			return httpbody.ProtocolOptions{Options: in.Options, AllFrames: in.All}
		}), silence),
		&operation.ApplyExtension.Row: over(operation.ApplyExtension, body(extension), silence),
		&operation.ReplaceExtensions.Row: over(operation.ReplaceExtensions, body(func(in []events.Extension) httpbody.Extensions {
			out := httpbody.Extensions{Extensions: []httpbody.Extension{}}
			for _, e := range in {
				out.Extensions = append(out.Extensions, extension(e))
			}
			return out
		}), silence),

		&operation.Submit.Row:   over(operation.Submit, bodyOf("turn", func(in api.TurnRequest) httpbody.NewTurn { return newTurn(in, 0) }), func(p httpbody.PendingTurn) api.SubmitResponse { return api.SubmitResponse{Turn: p.Turn} }),
		&operation.SubmitAt.Row: overAs(&operation.Submit.Row, bodyOf("turn", func(in api.SubmitAtArgs) httpbody.NewTurn { return newTurn(in.Request, in.At) }), func(p httpbody.PendingTurn) events.TurnID { return p.Turn }),
		&operation.Cancel.Row: over(operation.Cancel, func(in api.CancelArgs) sent {
			return sent{vars: []string{"{turn}", string(in.Turn)}, body: httpbody.CancelTurn{ID: in.Request.ID, Reason: in.Request.Reason}, named: true}
		}, func(c httpbody.Cancelled) api.CancelResponse {
			return api.CancelResponse{Receipt: c.Receipt, Evidence: api.CancelRequest{ID: c.ID, Origin: c.Origin, Reason: c.Reason}}
		}),
		&operation.Inject.Row: over(operation.Inject, body(func(in api.InjectRequest) httpbody.NewInput {
			return httpbody.NewInput{ID: in.ID, Role: in.Role, Parts: harness.PartsJSON(in.Parts), Boundary: in.Boundary}
		}), func(m httpbody.Made) events.InputID { return events.InputID(m.ID) }),
		&operation.CancelInputs.Row: over(operation.CancelInputs, func(in []events.InputID) sent { return inPath[events.InputID]("{input}")(in[0]) },
			func(c httpbody.CancelledInput) []api.InputReceipt { return []api.InputReceipt{c.Receipt} }),
		&operation.CancelInputsFrom.Row: overAs(&operation.CancelInputs.Row, func(in events.InputID) sent {
			return sent{vars: []string{"{input}", string(in)}, query: "?following=true"}
		},
			func(c httpbody.CancelledInput) api.CancelFromResponse {
				return api.CancelFromResponse{Receipt: c.Receipt, Cancelled: c.Cancelled}
			}),
		&operation.TakeFirstTurnInput.Row: over(operation.TakeFirstTurnInput, bare, func(f httpbody.FirstInput) (m events.Message) {
			if f.Message != nil {
				m = events.Message{ID: f.Message.ID, Role: f.Message.Role, Parts: partsOf(f.Message.Parts)}
			}
			return m
		}),
		&operation.Complete.Row: over(operation.Complete, body(newCompletion), func(c httpbody.Completed) plugin.Completion {
			return plugin.Completion{Text: c.Text, Parts: partsOf(c.Parts), Stop: c.Stop, Model: c.Model, Usage: events.Usage(c.Usage)}
		}),

		&operation.AppendNodes.Row: over(operation.AppendNodes, func(in api.AppendNodesRequest) sent {
			return sent{body: httpbody.NewNodes{Nodes: givenNodes(in.Nodes), RequiresAncestor: in.RequiresAncestor}, key: in.IdempotencyKey}
		}, func(a httpbody.AppendedNodes) api.AppendedNodes { return api.AppendedNodes(a) }),
		&operation.BranchTo.Row: over(operation.BranchTo, body(func(in events.NodeID) httpbody.Branch { return httpbody.Branch{Node: in} }), silence),
		&operation.OpenFrame.Row: over(operation.OpenFrame, body(func(in api.FrameRequest) httpbody.NewFrame {
			return httpbody.NewFrame{ID: in.Frame, Reason: in.Reason, Keep: in.Keep, Nodes: givenNodes(in.Nodes)}
		}), wasOpened),
		&operation.Rewrite.Row: over(operation.Rewrite, body(func(in []api.RewriteMessage) httpbody.Rewritten {
			out := httpbody.Rewritten{Messages: []httpbody.RewrittenMessage{}}
			for _, m := range in {
				out.Messages = append(out.Messages, httpbody.RewrittenMessage{ID: m.Message.ID, Role: m.Message.Role, Parts: harness.PartsJSON(m.Message.Parts), Transient: m.Transient})
			}
			return out
		}), silence),
		&operation.Compact.Row:   over(operation.Compact, bare, wasOpened),
		&operation.StoreBlob.Row: over(operation.StoreBlob, func(in []byte) sent { return sent{body: in} }, func(b httpbody.Blob) events.BlobRef { return events.BlobRef(b) }),

		&operation.Approve.Row: over(operation.Approve, body(func(in events.ToolApprovalGiven) httpbody.Answer {
			return httpbody.Answer{Call: in.Effect, Granted: &in.Granted, Reason: in.Reason}
		}), silence),
		&operation.ResolveTool.Row: over(operation.ResolveTool, body(func(in api.ResolveArgs) httpbody.CallResult {
			return httpbody.CallResult{Call: in.Key, Text: in.Result.Text, Outcome: httpbody.GivenOutcome(in.Result.Outcome), Class: in.Result.Class, Code: in.Result.Code}
		}), silence),
		&operation.ToolState.Row:      over(operation.ToolState, bare, toolStateOf),
		&operation.ApplyToolState.Row: over(operation.ApplyToolState, body(toolsOf), newGeneration),
		&operation.SetToolsAvailability.Row: over(operation.SetToolsAvailability, body(func(in api.AvailabilityArgs) httpbody.ToolLevel {
			return httpbody.ToolLevel{Names: append([]string{}, in.Names...), Level: in.Level}
		}), newGeneration),
		&operation.ToolSources.Row: over(operation.ToolSources, bare, func(got httpbody.ToolSources) (list []api.ToolSource) {
			for _, s := range got.Sources {
				list = append(list, api.ToolSource(s))
			}
			return list
		}),
		&operation.AddToolSource.Row:    over(operation.AddToolSource, inPath[string]("{source}"), newGeneration),
		&operation.RemoveToolSource.Row: over(operation.RemoveToolSource, inPath[string]("{source}"), newGeneration),
		&operation.RefreshCatalog.Row:   over(operation.RefreshCatalog, bare, newGeneration),
		&operation.ToolCatalog.Row:      over(operation.ToolCatalog, bare, func(c httpbody.ToolCatalog) []json.RawMessage { return c.Tools }),
		&operation.ExternalPlugins.Row:  over(operation.ExternalPlugins, bare, func(got httpbody.ExternalPlugins) []api.ExternalPlugin { return got.Plugins }),
		&operation.Actions.Row: over(operation.Actions, bare, func(got httpbody.Actions) (list []plugin.ActionDef) {
			for _, a := range got.Actions {
				list = append(list, plugin.ActionDef{Name: a.Name, Description: a.Description, Kind: a.Kind, Session: a.Session, Needs: a.Needs, Input: a.Input, Output: a.Output})
			}
			return list
		}),
		&operation.InvokeAction.Row: over(operation.InvokeAction, body(func(in api.ActionArgs) httpbody.Invocation { return httpbody.Invocation{Name: in.Name, Args: in.Args} }),
			func(r httpbody.ActionResult) plugin.Result {
				return plugin.Result{Text: r.Text, Outcome: outcomeOf(httpbody.Outcome(r.Outcome)), Class: r.Class, Code: r.Code, Pending: r.Pending, Attachments: partsOf(r.Attachments)}
			}),

		&operation.RegisterTask.Row: over(operation.RegisterTask, func(in api.TaskRequest) sent {
			return task(in.ID, httpbody.NewTask{
				Kind: httpbody.OwnKind(in.Of), Producer: in.Producer, Parent: in.Parent, Cancel: httpbody.CancelPolicy(in.Cancel), Close: httpbody.ClosePolicy(in.Close), Args: in.Args,
			})
		}, taskFrom),
		&operation.ProgressTask.Row: over(operation.ProgressTask, func(in api.ProgressArgs) sent { return task(in.Task, httpbody.TaskProgress{Message: in.Message}) }, taskFrom),
		&operation.EndOwnTask.Row: over(operation.EndOwnTask, func(in api.EndOwnTaskArgs) sent {
			return task(in.Task, httpbody.TaskEnd{State: httpbody.EndState(in.State), Summary: in.Summary})
		}, taskFrom),
		&operation.TransitionOwnTask.Row: over(operation.TransitionOwnTask, func(in api.TransitionArgs) sent {
			return task(in.Task, httpbody.TaskMove{State: httpbody.LiveState(in.State)})
		}, taskFrom),
		&operation.UnregisterOwnTask.Row: over(operation.UnregisterOwnTask, inPath[events.TaskID]("{task}"), silence),
		&operation.RequestCancelTask.Row: over(operation.RequestCancelTask, func(in api.RequestCancelTaskArgs) sent { return task(in.Task, httpbody.StopTask{Reason: in.Reason}) }, taskFrom),
		&operation.CancelTask.Row:        over(operation.CancelTask, inPath[events.TaskID]("{task}"), taskFrom),
		&operation.CancelTasks.Row: over(operation.CancelTasks, body(func(in []events.TaskID) httpbody.CancelTasks { return httpbody.CancelTasks{Keep: in} }),
			func(c httpbody.CancelledTasks) []events.TaskID { return c.Cancelled }),
		&operation.TransferTasks.Row: over(operation.TransferTasks, body(func(in api.TransferArgs) httpbody.TransferTasks {
			return httpbody.TransferTasks{To: in.To, Tasks: append([]events.TaskID{}, in.Tasks...)}
		}), silence),
		&operation.StartMonitor.Row: over(operation.StartMonitor, func(in events.MonitorSpec) sent {
			return sent{vars: []string{"{monitor}", string(in.ID)}, body: httpbody.MonitorSpec{
				Command: in.Command, Environment: in.Environment, Cwd: in.Cwd, Env: in.Env, Persistent: in.Persistent, TimeoutMillis: in.TimeoutMillis, Wake: in.Wake, RestartOnRestore: in.RestartOnRestore,
			}}
		}, silence),
		&operation.StopMonitor.Row: over(operation.StopMonitor, inPath[events.MonitorID]("{monitor}"), silence),
		&operation.MonitorSnapshot.Row: over(operation.MonitorSnapshot, bare, func(got httpbody.Monitors) api.MonitorSnapshot {
			s := api.MonitorSnapshot{Revision: got.Revision}
			for _, m := range got.Monitors {
				s.Monitors = append(s.Monitors, projector.Monitor{Spec: events.MonitorSpec{ID: m.ID, Command: m.Command}, State: events.MonitorState(m.State), Armed: m.Armed, Events: m.Lines})
				if m.State == "running" {
					s.Active++
				}
			}
			return s
		}),
	}
}

// configOf converts a configuration to its JSON.
func configOf(c events.Config) httpbody.SessionConfig {
	out := httpbody.SessionConfig{
		Provider: c.Provider, Model: c.Model, Effort: c.Effort, MaxOutputTokens: c.MaxOutputTokens, ContextWindow: c.ContextWindow,
		MaxIterations: c.MaxIterations, Protocol: c.Protocol, RetainMillis: c.RetainMillis, SilenceMillis: c.SilenceMillis, Environment: c.Environment, Instructions: c.Instructions,
		Sampling: httpbody.Sampling{Temperature: float(c.Sampling.Temperature), TopP: float(c.Sampling.TopP), Stop: c.Sampling.Stop},
	}
	if seed, err := strconv.ParseInt(string(c.Sampling.Seed), 10, 64); err == nil {
		out.Sampling.Seed = &seed
	}
	for _, l := range c.Layers {
		out.Layers = append(out.Layers, httpbody.PromptLayer(l))
	}
	for _, f := range c.Fallbacks {
		out.Fallbacks = append(out.Fallbacks, httpbody.Fallback(f))
	}
	return out
}

// float is nil for a number that is not set.
func float(n events.Number) *float64 {
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil
	}
	return &v
}

func newSession(in api.CreateArgs) httpbody.NewSession {
	r := in.Request
	out := httpbody.NewSession{
		ID: r.ID, Config: configOf(r.Config), Parent: r.Parent, Labels: r.Labels, Nodes: givenNodes(r.Nodes), Options: r.Options, Access: httpbody.ToolAccess(r.Access),
		Start: r.Start, From: r.From, Relation: r.Relation, Plugins: r.Plugins, Subagent: httpbody.Subagent(r.Subagent), Usage: r.Usage,
		Overlay: httpbody.NewOverlay{WithoutBase: r.Overlay.WithoutBase},
	}
	for _, t := range r.Overlay.Tools {
		out.Overlay.Tools = append(out.Overlay.Tools, httpbody.OverlayTool(t))
	}
	for _, c := range r.Overlay.Contributions {
		out.Overlay.Contributions = append(out.Overlay.Contributions, httpbody.Contribution(c))
	}
	if len(in.Head) > 0 {
		out.Snapshot = &httpbody.Snapshot{Head: in.Head, Segments: in.Segments}
	}
	if r.First != nil {
		out.First = &httpbody.GivenMessage{ID: r.First.ID, Role: r.First.Role, Parts: harness.PartsJSON(r.First.Parts)}
	}
	return out
}

func newTurn(in api.TurnRequest, at events.Millis) httpbody.NewTurn {
	return httpbody.NewTurn{
		ID: in.ID, Parts: harness.PartsJSON(in.Input.Parts), Continue: in.Input.Continue, WhenBusy: in.WhenBusy, At: at, Options: in.Input.Options, Plugins: in.Input.Plugins,
		Extension: extension(in.Input.Extension),
	}
}

func extension(e events.Extension) httpbody.Extension {
	return httpbody.Extension{Type: e.Type, Body: e.Body}
}

func givenNodes(list []api.AppendNode) []httpbody.GivenNode {
	out := []httpbody.GivenNode{}
	for _, n := range list {
		g := httpbody.GivenNode{Transient: n.Transient, ID: n.ID, Kind: n.Kind, Type: n.Type, Body: n.Body}
		if m := n.Message; m != nil {
			g.Message = &httpbody.GivenMessage{ID: m.ID, Role: m.Role, Parts: harness.PartsJSON(m.Parts)}
		}
		out = append(out, g)
	}
	return out
}

func newCompletion(in operation.CompleteArgs) httpbody.NewCompletion {
	r := in.Request
	out := httpbody.NewCompletion{
		Source: in.Source, Model: r.Model, Effort: r.Effort, ToolChoice: httpbody.ToolChoice(r.ToolChoice), Output: httpbody.OutputForm(r.Output), MaxTokens: r.MaxTokens,
		Messages: []httpbody.GivenMessage{},
	}
	for _, m := range r.Messages {
		out.Messages = append(out.Messages, httpbody.GivenMessage{ID: m.ID, Role: m.Role, Parts: harness.PartsJSON(m.Parts)})
	}
	for _, t := range r.Tools {
		out.Tools = append(out.Tools, httpbody.GivenTool{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return out
}

func outcomeOf(o httpbody.Outcome) events.Outcome {
	if o == "success" {
		return events.OutcomeSuccess
	}
	return events.Outcome(o)
}

func partsOf(list []httpbody.Part) (parts []events.Part) {
	for _, p := range list {
		part := events.Part{Kind: p.Type, Text: p.Text, Call: p.CallID, Tool: p.Tool, Args: p.Args, Outcome: outcomeOf(p.Outcome), MediaType: p.MediaType}
		if p.Blob != nil {
			part.Blob = events.BlobRef(*p.Blob)
		}
		parts = append(parts, part)
	}
	return parts
}

// named is a constant of the format, whose empty value has a name in JSON.
func clientsNamed[T, Word ~string](value Word, zero Word) T {
	if value == zero {
		return ""
	}
	return T(value)
}

func taskFrom(t httpbody.Task) projector.Task {
	return projector.Task{
		ID: t.ID, Of: clientsNamed[events.TaskKind](t.Kind, "other"), State: clientsNamed[events.TaskState](t.State, "pending"), Producer: t.Producer, Child: t.Child, Parent: t.Parent, Runner: t.Runner,
		Args: t.Args, Attempt: t.Attempt, To: t.MovedTo, Message: t.Message, Reason: t.Reason, Summary: t.Summary, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.CompletedAt,
	}
}

func toolStateOf(got httpbody.Tools) api.ToolState {
	s := api.ToolState{Generation: got.Generation}
	for _, t := range got.Tools {
		entry := events.ToolEntry{
			Name: t.Name, Description: t.Description, Effects: clientsNamed[events.Effects](t.Effects, "non_idempotent"), Source: t.Source,
			Availability: clientsNamed[events.Availability](t.Availability, "showcased"), Override: t.Override, Orphan: t.Orphan, Serial: t.Serial,
		}
		_ = entry.SetContract(events.Contract{Schema: t.Schema, Output: t.Output, Examples: t.Examples}) // it came as JSON
		s.Tools = append(s.Tools, entry)
	}
	s.Pack()
	return s
}

func toolsOf(s api.ToolState) httpbody.Tools {
	out := httpbody.Tools{Generation: s.Generation, Tools: []httpbody.Tool{}}
	for i := range s.Tools {
		t := &s.Tools[i]
		out.Tools = append(out.Tools, httpbody.Tool{
			Name: t.Name, Description: t.Description, Schema: t.Look().Schema, Effects: httpbody.Effects(cmp.Or(t.Effects, "non_idempotent")), Source: t.Source,
			Availability: httpbody.Level(cmp.Or(t.Availability, "showcased")), Override: t.Override, Orphan: t.Orphan, Serial: t.Serial,
		})
	}
	return out
}
