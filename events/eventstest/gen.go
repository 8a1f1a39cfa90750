package eventstest

import (
	"fmt"
	"math/bits"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
)

// draws has a generator of valid payloads for each kind.
var draws = map[events.Kind]func(*rapid.T) events.Payload{
	events.KindSessionOpened: func(t *rapid.T) events.Payload {
		p := &events.SessionOpened{
			Config: config(t), Parent: maybe(t, token[events.SessionID]), Forked: maybe(t, forked),
			Labels:  labels(t),
			Commits: count(t),
			Options: labels(t), First: maybe(t, message), Access: access(t), Subagent: maybe(t, subagent), Usage: maybe(t, id[string]),
			Owner: maybe(t, token[string]),
		}
		if p.Parent != "" {
			p.Relation = one(t, events.RelationRoot, events.RelationChild, events.RelationHandoff)
		}
		if !p.Forked.IsZero() {
			p.Base = maybe(t, blob)
			p.Base.Size %= events.MaxBlobBytes
		}
		return p
	},
	events.KindSessionConfigured: func(t *rapid.T) events.Payload {
		return &events.SessionConfigured{Config: config(t), Announced: rapid.Bool().Draw(t, "announced")}
	},
	events.KindSessionTold: func(t *rapid.T) events.Payload {
		return &events.SessionTold{Of: events.Seq(rapid.Int64Range(1, 1<<40).Draw(t, "of")), Worker: token[events.WorkerID](t)}
	},
	events.KindSessionClosed: func(t *rapid.T) events.Payload { return &events.SessionClosed{Reason: text(t)} },
	events.KindSessionGranted: func(t *rapid.T) events.Payload {
		rights := distinct(t, 0, func(t *rapid.T) events.SessionRight {
			return one(t, events.GrantRead, events.GrantWrite, events.GrantApprove)
		}, func(r events.SessionRight) events.SessionRight { return r })
		return &events.SessionGranted{To: token[string](t), Rights: rights, By: maybe(t, id[string])}
	},
	events.KindBodyStored: func(t *rapid.T) events.Payload {
		ref := blob(t)
		ref.Size = rapid.Int64Range(1, events.MaxBlobBytes).Draw(t, "size")
		return &events.BodyStored{Blob: ref, By: maybe(t, id[string])}
	},
	events.KindGraphAppended: func(t *rapid.T) events.Payload {
		return &events.GraphAppended{Nodes: nodes(t, 1), Key: maybe(t, id[string])}
	},
	events.KindGraphBranched: func(t *rapid.T) events.Payload {
		return &events.GraphBranched{Leaf: maybe(t, id[events.NodeID])}
	},
	events.KindFrameOpened: func(t *rapid.T) events.Payload {
		return &events.FrameOpened{
			Frame: id[events.FrameID](t), Reason: text(t), Keep: maybe(t, id[events.NodeID]), Nodes: nodes(t, 0),
		}
	},
	events.KindTurnRequested: func(t *rapid.T) events.Payload {
		p := &events.TurnRequested{Callers: list(t, 0, token[string]), Trace: maybe(t, traceParent)}
		if flag(t) {
			p.Root, p.Switches = token[events.TurnID](t), rapid.Int64Range(1, events.MaxSwitches).Draw(t, "switches")
		}
		p.Input = turnInput(t)
		if p.Switches == 0 && !p.Input.Continue && flag(t) {
			p.Busy, p.Behind = one(t, events.BusyReject, events.BusyInterrupt, events.BusyBranch, events.BusyInject), token[events.TurnID](t)
			if p.Busy == events.BusyInject {
				p.Input = events.TurnInput{Parts: p.Input.Parts}
			}
		}
		return p
	},
	events.KindTurnScheduled: func(t *rapid.T) events.Payload {
		p := &events.TurnScheduled{Input: turnInput(t), At: rapid.Custom(moment).Draw(t, "at"), Callers: list(t, 0, token[string]), Trace: maybe(t, traceParent)}
		p.Busy = one(t, events.BusyEnqueue, events.BusyReject, events.BusyInterrupt, events.BusyBranch, events.BusyInject)
		if p.Busy == events.BusyInject {
			p.Input = events.TurnInput{Parts: p.Input.Parts}
		}
		return p
	},
	events.KindTurnReleased: func(t *rapid.T) events.Payload {
		return &events.TurnReleased{Worker: token[events.WorkerID](t)}
	},
	events.KindTurnAnnounced: func(t *rapid.T) events.Payload {
		return &events.TurnAnnounced{Worker: token[events.WorkerID](t)}
	},
	events.KindTurnTold: func(t *rapid.T) events.Payload {
		return &events.TurnTold{Worker: token[events.WorkerID](t)}
	},
	events.KindTurnStarted: func(t *rapid.T) events.Payload {
		return &events.TurnStarted{
			Attempt: count(t) + 1, Worker: token[events.WorkerID](t), Message: maybe(t, id[events.MessageID]),
			Points: distinct(t, 0, point, func(p events.HookPoint) events.HookPoint { return p }),
		}
	},
	events.KindTurnCancelRequested: func(t *rapid.T) events.Payload {
		return &events.TurnCancelRequested{Request: id[string](t), Origin: text(t), Reason: text(t)}
	},
	events.KindTurnCompleted: func(t *rapid.T) events.Payload {
		p := completed(t)
		return &p
	},
	events.KindTurnDiverted: diverted,
	events.KindModelReplied: func(t *rapid.T) events.Payload {
		return &events.ModelReplied{
			Iteration: count(t), Prompt: prompt(t), Parts: list(t, 0, part), Stop: stop(t), Usage: maybe(t, usage),
			Provider: text(t), Model: text(t), Attempts: count(t), Millis: count(t), Message: maybe(t, id[events.MessageID]),
			Detail: text(t), Shown: shown(t), Fault: text(t), Failed: list(t, 0, failedTry), Spent: maybe(t, usage), Foreign: count(t),
		}
	},
	events.KindModelFailed: func(t *rapid.T) events.Payload {
		return &events.ModelFailed{
			Iteration: count(t), Prompt: prompt(t), Error: id[string](t), Code: text(t), Status: count(t),
			Message: text(t), Attempts: count(t), Provider: text(t), Model: text(t), Raw: text(t), Retryable: flag(t), Failed: list(t, 0, failedTry),
			Fallback: maybe(t, fallbackTo),
		}
	},
	events.KindModelInterrupted: func(t *rapid.T) events.Payload {
		return &events.ModelInterrupted{
			Iteration: count(t), Prompt: prompt(t), Parts: list(t, 0, streamed), Usage: maybe(t, usage), Provider: text(t), Model: text(t),
			Attempts: count(t), Millis: count(t),
		}
	},
	events.KindToolStateApplied: func(t *rapid.T) events.Payload {
		return &events.ToolStateApplied{Generation: count(t), Tools: tools(t), Continues: flag(t)}
	},
	events.KindToolSourcesApplied: func(t *rapid.T) events.Payload {
		return &events.ToolSourcesApplied{Sources: distinct(t, 0, token[string], func(name string) string { return name })}
	},
	events.KindToolCalled: func(t *rapid.T) events.Payload {
		p := &events.ToolCalled{Iteration: count(t), Calls: positions(t), Attempt: maybe(t, count)}
		if rapid.Bool().Draw(t, "held") {
			for range p.Calls {
				p.Holders = append(p.Holders, maybe(t, token[string]))
			}
			if rapid.Bool().Draw(t, "terms") {
				for _, holder := range p.Holders {
					term := ""
					if holder != "" {
						term = maybe(t, token[string])
					}
					p.Terms = append(p.Terms, term)
				}
			}
		}
		return p
	},
	events.KindToolReturned: func(t *rapid.T) events.Payload {
		return &events.ToolReturned{Iteration: count(t), Results: results(t), Message: maybe(t, id[events.MessageID])}
	},
	events.KindToolLost: func(t *rapid.T) events.Payload {
		return &events.ToolLost{Iteration: count(t), Calls: positions(t), Message: maybe(t, id[events.MessageID])}
	},
	events.KindInputInjected: func(t *rapid.T) events.Payload {
		return &events.InputInjected{
			Input: token[events.InputID](t), Role: one(t, events.RoleUser, events.RoleSystem), Parts: list(t, 0, part),
			Boundary: one(t, events.BoundaryAfterWork, events.BoundaryBeforeCompletion), Caller: maybe(t, token[string]),
		}
	},
	events.KindInputAccepted: func(t *rapid.T) events.Payload {
		return &events.InputAccepted{
			Inputs: list(t, 1, token[events.InputID]),
			At:     one(t, events.AtStart, events.AtAfterWork, events.AtBeforeCompletion),
		}
	},
	events.KindInputCancelled: func(t *rapid.T) events.Payload {
		return &events.InputCancelled{Inputs: list(t, 1, token[events.InputID])}
	},
	events.KindSessionFirstInputTaken: func(t *rapid.T) events.Payload {
		return &events.SessionFirstInputTaken{By: maybe(t, id[string])}
	},
	events.KindFrameConfigured: func(t *rapid.T) events.Payload {
		return &events.FrameConfigured{Options: bytes(t), All: flag(t)}
	},
	events.KindFrameStateSaved: func(t *rapid.T) events.Payload {
		return &events.FrameStateSaved{State: bytes(t), Blob: maybe(t, blob)}
	},
	events.KindSessionOverlaid: func(t *rapid.T) events.Payload {
		return &events.SessionOverlaid{Tools: tools(t), Contributions: list(t, 0, contribution), WithoutBase: flag(t)}
	},
	events.KindSessionExtensionsSet: func(t *rapid.T) events.Payload {
		return &events.SessionExtensionsSet{Extensions: list(t, 0, func(t *rapid.T) events.Extension { return events.Extension{Type: id[string](t), Body: bytes(t)} })}
	},
	events.KindSessionExtended: func(t *rapid.T) events.Payload {
		return &events.SessionExtended{Extension: events.Extension{Type: id[string](t), Body: bytes(t)}, Saved: flag(t)}
	},
	events.KindTurnPrepared:     func(t *rapid.T) events.Payload { return prepared(t) },
	events.KindTurnCheckpointed: func(t *rapid.T) events.Payload { return checkpointed(t) },
	events.KindModelCompleted: func(t *rapid.T) events.Payload {
		return &events.ModelCompleted{
			Key: id[string](t), Request: text(t), Source: id[string](t), Parts: list(t, 0, part), Stop: stop(t),
			Usage: maybe(t, usage), Provider: text(t), Model: text(t), Millis: count(t),
		}
	},
	events.KindHookRan: func(t *rapid.T) events.Payload {
		p := &events.HookRan{
			Point: point(t), Iteration: count(t), Decisions: list(t, 0, decision),
			Failed: maybe(t, id[string]), Issue: maybe(t, issue),
		}
		switch p.Point {
		case events.PointCheckpoint:
			p.At = one(t, events.AtAfterWork, events.AtBeforeCompletion)
		case events.PointAfterTurn:
			p.At = events.AtEnd
		case events.PointBeforeTurn, events.PointBeforeModel, events.PointBeforeTool, events.PointAfterTool, events.PointReply:
		}
		return p
	},
	events.KindPluginStateSaved: func(t *rapid.T) events.Payload {
		base := revision(t)
		return &events.PluginStateSaved{
			Plugin: id[string](t), Version: text(t), Base: base, Revision: base + 1, State: bytes(t),
			Blob: maybe(t, blob), Artifacts: artifacts(t),
		}
	},
	events.KindToolApprovalAsked: func(t *rapid.T) events.Payload {
		return &events.ToolApprovalAsked{
			Effect: id[events.EffectID](t), Tool: id[string](t), Args: bytes(t), Blob: maybe(t, blob),
			Plugin: id[string](t), Question: text(t), Until: events.Millis(count(t)), Places: bytes(t),
		}
	},
	events.KindToolApprovalGiven: func(t *rapid.T) events.Payload {
		return &events.ToolApprovalGiven{
			Effect: id[events.EffectID](t), Granted: flag(t), By: maybe(t, id[string]), Reason: text(t),
		}
	},
	events.KindToolPended: func(t *rapid.T) events.Payload {
		return &events.ToolPended{Iteration: count(t), Calls: positions(t)}
	},
	events.KindToolResolved: func(t *rapid.T) events.Payload {
		return &events.ToolResolved{Effect: id[events.EffectID](t), Result: result(t), By: maybe(t, id[string])}
	},
	events.KindToolResultScheduled: func(t *rapid.T) events.Payload {
		return &events.ToolResultScheduled{
			Effect: id[events.EffectID](t), At: rapid.Custom(moment).Draw(t, "at"), Result: result(t), By: maybe(t, id[string]),
		}
	},
	events.KindToolNestedCalled: func(t *rapid.T) events.Payload {
		return &events.ToolNestedCalled{Effect: id[events.EffectID](t), Tool: id[string](t), Digest: text(t)}
	},
	events.KindToolNestedReturned: func(t *rapid.T) events.Payload {
		return &events.ToolNestedReturned{
			Effect: id[events.EffectID](t), Tool: id[string](t), Args: bytes(t), Blob: maybe(t, blob), Digest: text(t), Result: result(t),
		}
	},
	events.KindUsageCharged: func(t *rapid.T) events.Payload {
		return &events.UsageCharged{
			Child: token[events.SessionID](t), Source: id[string](t), At: seq(t), Entries: entries(t),
		}
	},
	events.KindTaskRegistered: func(t *rapid.T) events.Payload { return registration(t) },
	events.KindTaskStarted: func(t *rapid.T) events.Payload {
		return &events.TaskStarted{Task: short[events.TaskID](t), Worker: token[events.WorkerID](t), Attempt: count(t) + 1}
	},
	events.KindTaskStateChanged: func(t *rapid.T) events.Payload {
		return &events.TaskStateChanged{Task: short[events.TaskID](t), State: one(t, events.TaskRunning, events.TaskWaiting)}
	},
	events.KindTaskProgressed: func(t *rapid.T) events.Payload {
		return &events.TaskProgressed{Task: short[events.TaskID](t), Message: text(t)}
	},
	events.KindTaskCancelRequested: func(t *rapid.T) events.Payload {
		return &events.TaskCancelRequested{Task: short[events.TaskID](t), Reason: text(t)}
	},
	events.KindTaskEnded: func(t *rapid.T) events.Payload {
		return &events.TaskEnded{
			Task: short[events.TaskID](t), State: one(t, events.TaskCompleted, events.TaskFailed, events.TaskCancelled), Summary: text(t),
		}
	},
	events.KindTaskHidden: func(t *rapid.T) events.Payload {
		return &events.TaskHidden{Task: short[events.TaskID](t), Label: text(t)}
	},
	events.KindTaskPassedOn: func(t *rapid.T) events.Payload {
		return &events.TaskPassedOn{Task: short[events.TaskID](t)}
	},
	events.KindTaskRemoved: func(t *rapid.T) events.Payload { return &events.TaskRemoved{Task: short[events.TaskID](t)} },
	events.KindTaskTransferred: func(t *rapid.T) events.Payload {
		return &events.TaskTransferred{Tasks: list(t, 1, short[events.TaskID]), To: token[events.SessionID](t)}
	},
	events.KindTaskLeaving: func(t *rapid.T) events.Payload {
		return &events.TaskLeaving{Tasks: list(t, 1, short[events.TaskID]), To: token[events.SessionID](t)}
	},
	events.KindTaskStayed:        func(t *rapid.T) events.Payload { return &events.TaskStayed{Task: short[events.TaskID](t)} },
	events.KindMonitorRegistered: func(t *rapid.T) events.Payload { return &events.MonitorRegistered{Spec: monitor(t)} },
	events.KindMonitorArmed: func(t *rapid.T) events.Payload {
		return &events.MonitorArmed{Monitor: short[events.MonitorID](t)}
	},
	events.KindMonitorStarted: func(t *rapid.T) events.Payload {
		return &events.MonitorStarted{Monitor: short[events.MonitorID](t), Worker: token[events.WorkerID](t), Attempt: count(t) + 1}
	},
	events.KindMonitorReported: func(t *rapid.T) events.Payload {
		return &events.MonitorReported{Monitor: short[events.MonitorID](t), Lines: output(t)}
	},
	events.KindMonitorEnded: func(t *rapid.T) events.Payload {
		return &events.MonitorEnded{
			Monitor: short[events.MonitorID](t), Exit: count(t), Error: text(t),
			State: one(t, events.MonitorIdle, events.MonitorStopped, events.MonitorExited, events.MonitorFailed),
		}
	},
	events.KindAuditHeadSigned: func(t *rapid.T) events.Payload {
		p := &events.AuditHeadSigned{Key: hashes(t, 1), Certificate: text(t), Before: rapid.Int64Range(0, 1<<40).Draw(t, "before"), Signature: hashes(t, 2)}
		p.Edge = hashes(t, bits.OnesCount64(uint64(p.Before)))
		p.Leaves = hashes(t, rapid.IntRange(0, 3).Draw(t, "leaves"))
		return p
	},
	events.KindMonitorUpdatesTaken: func(t *rapid.T) events.Payload {
		return &events.MonitorUpdatesTaken{Upto: count(t) + 1}
	},
}

// Payload generates valid payloads of kind. It is nil for a kind without generator.
func Payload(kind events.Kind) *rapid.Generator[events.Payload] {
	draw, ok := draws[kind]
	if !ok {
		return nil
	}
	return rapid.Custom(draw)
}

// Commit generates valid commits of one to four events of any kinds, including unknown ones.
func Commit() *rapid.Generator[*events.Commit] {
	return rapid.Custom(func(t *rapid.T) *events.Commit {
		c := &events.Commit{
			ID:      id[events.CommitID](t),
			Session: token[events.SessionID](t),
			At:      events.Millis(rapid.Int64().Draw(t, "at")),
			Actor: events.Actor{
				Kind: one(t, events.ActorNode, events.ActorClient, events.ActorPlugin, events.ActorSystem),
				ID:   maybe(t, id[string]),
			},
			Cause: maybe(t, id[string]),
		}
		if flag(t) {
			c.Key, c.Digest = id[string](t), id[string](t)
		}
		if flag(t) {
			c.Salt = exactly(t, events.SaltBytes)
		}
		for range rapid.IntRange(1, 4).Draw(t, "events") {
			c.Events = append(c.Events, event(t))
		}
		return c
	})
}

func event(t *rapid.T) events.Event {
	turn := maybe(t, token[events.TurnID])
	kinds := events.Kinds()
	i := rapid.IntRange(0, len(kinds)).Draw(t, "kind")
	if i == len(kinds) {
		return Unknown(turn, fmt.Sprintf("later.kind_%d", count(t)%10), []byte{0x81, 0xa1, 'x', byte(count(t) % 0x80)})
	}
	return events.Of(turn, Payload(kinds[i]).Draw(t, string(kinds[i])))
}

// Unknown is an event of a kind that this program does not know. raw is one msgpack value.
func Unknown(turn events.TurnID, kind string, raw []byte) events.Event {
	return events.Event{Kind: events.Kind(kind), V: 3, Turn: turn, Raw: raw}
}

func turnInput(t *rapid.T) events.TurnInput {
	in := events.TurnInput{Options: bytes(t), Extension: maybe(t, extension), Plugins: labels(t), Generation: maybe(t, generation), Output: maybe(t, form), Layers: list(t, 0, layer), Answers: events.EffectID(text(t))}
	if rapid.Bool().Draw(t, "continue") {
		in.Continue = true
		return in
	}
	in.Parts = list(t, 0, part)
	return in
}

// moment draws a time that may be set.
func moment(t *rapid.T) events.Millis {
	return events.Millis(rapid.Int64Range(1, 4_000_000_000_000).Draw(t, "ms"))
}
