package eventstest

import (
	"cmp"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
)

func one[T any](t *rapid.T, of ...T) T { return rapid.SampledFrom(of).Draw(t, "one of") }

// maybe draws with draw, or returns the zero value.
func maybe[T any](t *rapid.T, draw func(*rapid.T) T) T {
	var v T
	if rapid.Bool().Draw(t, "set") {
		v = draw(t)
	}
	return v
}

// list draws least to least+3 elements. Without elements it returns nil, as decoding does.
func list[T any](t *rapid.T, least int, draw func(*rapid.T) T) []T {
	var l []T
	for range rapid.IntRange(least, least+3).Draw(t, "length") {
		l = append(l, draw(t))
	}
	return l
}

// distinct is list without equal keys, sorted by key.
func distinct[T any, K cmp.Ordered](t *rapid.T, least int, draw func(*rapid.T) T, key func(T) K) []T {
	l := list(t, least, draw)
	slices.SortFunc(l, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return slices.CompactFunc(l, func(a, b T) bool { return key(a) == key(b) })
}

func token[T ~string](t *rapid.T) T {
	return T(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "token"))
}

// id draws an identifier of a payload or a commit.
func id[T ~string](t *rapid.T) T {
	return T(rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "id"))
}

func text(t *rapid.T) string    { return rapid.StringN(0, 40, -1).Draw(t, "text") }
func count(t *rapid.T) int64    { return rapid.Int64Range(0, 1<<40).Draw(t, "count") }
func seq(t *rapid.T) events.Seq { return events.Seq(rapid.Uint64().Draw(t, "seq")) }

// bytes draws nil in place of an empty slice, as decoding does.
func bytes(t *rapid.T) []byte {
	return list(t, 0, func(t *rapid.T) byte { return rapid.Byte().Draw(t, "byte") })
}

func labels(t *rapid.T) map[string]string {
	m := rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "labels")
	if len(m) == 0 {
		return nil
	}
	return m
}

func sampling(t *rapid.T) events.Sampling {
	return events.Sampling{
		Temperature: one[events.Number](t, "", "0", "0.25", "2"), TopP: one[events.Number](t, "", "1", "0.5e-1"),
		Seed: one[events.Number](t, "", "0", "-9223372036854775808"), Stop: list(t, 0, id[string]),
	}
}

func failedTry(t *rapid.T) events.FailedTry {
	return events.FailedTry{Error: id[string](t), Code: text(t), Status: count(t), Message: text(t), Wait: count(t)}
}

func layer(t *rapid.T) events.PromptLayer {
	l := events.PromptLayer{Slot: slot(t), Op: one(t, events.LayerAdd, events.LayerReplace, events.LayerClear)}
	if l.Op != events.LayerClear {
		l.Title, l.Content = text(t), text(t)+"."
	}
	return l
}

func slot(t *rapid.T) events.Slot {
	return one(t, events.SlotIntro, events.SlotExecution, events.SlotGuidance, events.SlotProjectInstructions,
		events.SlotRuntimeContext, events.SlotEnvironment)
}

func form(t *rapid.T) events.OutputForm {
	return events.OutputForm{Name: token[string](t), Schema: append(bytes(t), '{'), Strict: flag(t)}
}

func generation(t *rapid.T) events.Generation {
	return events.Generation{Effort: maybe(t, id[string]), MaxOutputTokens: count(t), Sampling: maybe(t, sampling)}
}

func config(t *rapid.T) events.Config {
	return events.Config{
		Provider: maybe(t, id[string]), Model: maybe(t, id[string]), Effort: maybe(t, id[string]),
		MaxOutputTokens: count(t), ContextWindow: count(t), MaxIterations: count(t),
		Protocol: maybe(t, id[string]), RetainMillis: count(t), SilenceMillis: count(t), Environment: maybe(t, short[string]), Instructions: text(t), Sampling: maybe(t, sampling), Layers: list(t, 0, layer),
		Fallbacks: list(t, 0, fallback),
	}
}

func fallback(t *rapid.T) events.Fallback {
	return events.Fallback{Provider: maybe(t, id[string]), Model: id[string](t)}
}

func fallbackTo(t *rapid.T) events.FallbackTo {
	return events.FallbackTo{Place: 1 + count(t), Provider: maybe(t, id[string]), Model: id[string](t)}
}

func forked(t *rapid.T) events.ForkedFrom {
	return events.ForkedFrom{Session: token[events.SessionID](t), Leaf: maybe(t, id[events.NodeID]), Seq: seq(t)}
}

func blob(t *rapid.T) events.BlobRef {
	return events.BlobRef{Digest: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest"), Size: count(t) % (events.MaxBlobBytes + 1)}
}

func outcome(t *rapid.T) events.Outcome {
	return one(t, events.OutcomeSuccess, events.OutcomeFailure, events.OutcomeCancelled, events.OutcomeLost)
}

func part(t *rapid.T) events.Part {
	return events.Part{
		Kind: one(t, events.PartText, events.PartReasoning, events.PartToolCall, events.PartToolResult, events.PartAttachment),
		Text: text(t), Blob: maybe(t, blob), Call: maybe(t, id[events.CallID]), Tool: maybe(t, id[string]),
		Args: bytes(t), Outcome: outcome(t), MediaType: text(t), Meta: bytes(t),
	}
}

// shown draws a reply's text for users.
func streamed(t *rapid.T) events.Part {
	p := part(t)
	p.Kind = one(t, events.PartText, events.PartReasoning)
	return p
}

func shown(t *rapid.T) []events.Part {
	return list(t, 0, func(t *rapid.T) events.Part {
		return events.Part{Kind: events.PartText, Text: text(t), Blob: maybe(t, blob)}
	})
}

func stop(t *rapid.T) events.StopReason {
	return one(t, events.StopEnd, events.StopToolUse, events.StopOutputLimit, events.StopContextOverflow,
		events.StopContentFilter, events.StopProviderError, events.StopCancelled, events.StopUnknown)
}

func message(t *rapid.T) events.Message {
	return events.Message{
		ID: maybe(t, id[events.MessageID]), Role: one(t, events.RoleUser, events.RoleAssistant, events.RoleSystem),
		Parts: list(t, 0, part), Origin: text(t), Stop: maybe(t, stop),
	}
}

func node(t *rapid.T) events.NewNode {
	n := events.NewNode{ID: id[events.NodeID](t), Kind: one(t, events.NodeMessage, events.NodePlugin, events.NodeProtocol)}
	if n.Kind == events.NodeMessage {
		n.Message = message(t)
		return n
	}
	n.Type, n.Body, n.Blob = id[string](t), bytes(t), maybe(t, blob)
	return n
}

func nodes(t *rapid.T, least int) []events.NewNode {
	return distinct(t, least, node, func(n events.NewNode) events.NodeID { return n.ID })
}

func issue(t *rapid.T) events.Issue {
	return events.Issue{Kind: text(t), Code: text(t), Message: text(t)}
}

func prompt(t *rapid.T) events.PromptRef {
	return events.PromptRef{
		Digest: text(t), Leaf: maybe(t, id[events.NodeID]), Frame: maybe(t, id[events.FrameID]), Catalog: count(t), Config: seq(t), Room: count(t),
	}
}

func usage(t *rapid.T) events.Usage {
	return events.Usage{Input: count(t), Output: count(t), CacheRead: count(t), CacheWrite: count(t), Reasoning: count(t)}
}

func tool(t *rapid.T) events.ToolEntry {
	return events.ToolEntry{
		Name: id[string](t), Description: text(t), Contract: maybe(t, blob),
		Effects: one(t, events.EffectsNonIdempotent, events.EffectsIdempotent, events.EffectsNone), Source: text(t),
		Availability: one(t, events.AvailOff, events.AvailSearchable, events.AvailCallable, events.AvailShowcased),
		Override:     override(t), Orphan: flag(t), Serial: flag(t),
		Namespace: maybe(t, token[string]), Aliases: list(t, 0, id[string]),
	}
}

func tools(t *rapid.T) []events.ToolEntry {
	return distinct(t, 0, tool, func(e events.ToolEntry) string { return e.Name })
}

func positions(t *rapid.T) []int64 { return distinct(t, 1, count, func(n int64) int64 { return n }) }

func result(t *rapid.T) events.ToolResult {
	r := events.ToolResult{
		Call: count(t), Outcome: outcome(t), Text: text(t), Blob: maybe(t, blob), Class: text(t), Code: text(t),
		Attempts: count(t), Millis: count(t), Attachments: list(t, 0, part), Unseen: list(t, 0, part),
		Control: one(t, events.ControlNone, events.ControlFinish, events.ControlFail, events.ControlSubmit, events.ControlSwitch),
		Full:    text(t), FullBlob: maybe(t, blob),
	}
	if r.Control == events.ControlSwitch {
		r.Switch = frameSwitch(t)
	}
	return r
}

func results(t *rapid.T) []events.ToolResult {
	return distinct(t, 1, result, func(r events.ToolResult) int64 { return r.Call })
}

func flag(t *rapid.T) bool       { return rapid.Bool().Draw(t, "flag") }
func revision(t *rapid.T) uint64 { return rapid.Uint64Max(math.MaxUint64-1).Draw(t, "revision") }

func access(t *rapid.T) events.ToolAccess {
	return events.ToolAccess{Tools: list(t, 0, id[string]), Hidden: list(t, 0, id[string])}
}

func subagent(t *rapid.T) events.Subagent {
	return events.Subagent{Capability: id[string](t), Depth: count(t), MaxDepth: count(t)}
}

func extension(t *rapid.T) events.Extension {
	return events.Extension{Type: id[string](t), Body: bytes(t)}
}

func frameSwitch(t *rapid.T) events.FrameSwitch {
	return events.FrameSwitch{Frame: id[events.FrameID](t), Task: text(t), Nodes: nodes(t, 0)}
}

// diverted draws each of the three ends equally often.
func diverted(t *rapid.T) events.Payload {
	p := &events.TurnDiverted{End: one(t, events.EndRejected, events.EndInjected, events.EndBranched), By: token[events.TurnID](t)}
	switch p.End { //nolint:exhaustive // the rest diverts no turn
	case events.EndInjected:
		p.Message, p.At = maybe(t, id[events.MessageID]), one(t, events.AtAfterWork, events.AtBeforeCompletion)
	case events.EndBranched:
		p.Session = token[events.SessionID](t)
	}
	return p
}

// completed draws a frame switch in half of the cases, because this end has the most fields.
func completed(t *rapid.T) events.TurnCompleted {
	p := events.TurnCompleted{
		End: one(t, events.EndFinished, events.EndCancelled, events.EndIncomplete, events.EndInvalidInput,
			events.EndMaxTurns, events.EndProviderError, events.EndRuntimeError, events.EndToolValue, events.EndToolError,
			events.EndSubmitted, events.EndPluginAbort, events.EndFailed),
		Issue:  maybe(t, issue),
		Notice: maybe(t, id[events.MessageID]),
		Tool:   text(t), Call: count(t),
	}
	if flag(t) {
		p.End, p.Switch = events.EndSwitched, frameSwitch(t)
	}
	return p
}

func override(t *rapid.T) events.Override {
	return one(t, "", events.Overridden(events.AvailOff), events.Overridden(events.AvailSearchable),
		events.Overridden(events.AvailCallable), events.Overridden(events.AvailShowcased))
}

func point(t *rapid.T) events.HookPoint {
	return one(t, events.PointBeforeTurn, events.PointBeforeModel, events.PointBeforeTool, events.PointAfterTool, events.PointCheckpoint, events.PointAfterTurn, events.PointReply)
}

func checkpoint(t *rapid.T) events.CheckpointKind {
	return one(t, events.AtAfterWork, events.AtBeforeCompletion, events.AtEnd)
}

func checkpointed(t *rapid.T) *events.TurnCheckpointed {
	p := &events.TurnCheckpointed{At: checkpoint(t)}
	if p.At == events.AtEnd {
		p.Ending = completed(t)
	}
	return p
}

func decision(t *rapid.T) events.Decision {
	return events.Decision{
		Plugin: id[string](t),
		Kind: one(t, events.DirectiveAbort, events.DirectiveEnqueue, events.DirectiveCreate, events.DirectiveReplaceArgs,
			events.DirectiveShortCircuit, events.DirectiveEmitEvents, events.DirectiveEmitTrace, events.DirectiveAskApproval, events.DirectiveJudgePlaces,
			events.DirectiveContribute, events.DirectiveSystemPrompt, events.DirectiveSwitch),
		Code: text(t), Message: text(t), Session: maybe(t, token[events.SessionID]), Name: text(t), Body: bytes(t),
		Count: count(t), Call: count(t), Messages: list(t, 0, message), Contributions: list(t, 0, contribution),
	}
}

func viewItem(t *rapid.T) events.ViewItem {
	if flag(t) {
		return events.ViewItem{Message: message(t)}
	}
	return events.ViewItem{From: id[events.MessageID](t), To: id[events.MessageID](t)}
}

func contribution(t *rapid.T) events.Contribution {
	return events.Contribution{
		Slot:  slot(t),
		Title: text(t), Priority: rapid.Int64().Draw(t, "priority"), Tools: list(t, 0, id[string]), Minimum: override(t),
		Content: text(t),
	}
}

func prepared(t *rapid.T) *events.TurnPrepared {
	p := &events.TurnPrepared{Kept: flag(t)}
	if flag(t) {
		p.Viewed, p.Upto, p.View = true, maybe(t, id[events.NodeID]), list(t, 0, viewItem)
	}
	if !p.Kept {
		p.Contributions = list(t, 0, contribution)
		slices.SortStableFunc(p.Contributions, func(a, b events.Contribution) int {
			return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.Priority, b.Priority))
		})
	}
	return p
}

func artifact(t *rapid.T) events.Artifact {
	return events.Artifact{Name: id[string](t), Data: bytes(t), Blob: maybe(t, blob)}
}

func artifacts(t *rapid.T) []events.Artifact {
	return distinct(t, 0, artifact, func(a events.Artifact) string { return a.Name })
}

func entries(t *rapid.T) []events.UsageEntry {
	return distinct(t, 0, func(t *rapid.T) events.UsageEntry {
		return events.UsageEntry{Model: text(t), Usage: usage(t)}
	}, func(e events.UsageEntry) string { return e.Model })
}

func traceParent(t *rapid.T) events.TraceParent {
	return events.TraceParent{
		Parent: "00-" + rapid.StringMatching(`[0-9a-f]{31}[1-9a-f]-[0-9a-f]{15}[1-9a-f]-0[0-3]`).Draw(t, "traceparent"),
		State:  rapid.StringMatching(`[ -~]{0,40}`).Draw(t, "tracestate"),
	}
}

// short draws the id of a task or a monitor.
func short[T ~string](t *rapid.T) T {
	return T(rapid.StringMatching(`[A-Za-z0-9_-]{1,32}`).Draw(t, "short token"))
}

func registration(t *rapid.T) *events.TaskRegistered {
	return &events.TaskRegistered{
		Task: short[events.TaskID](t), Producer: text(t), Child: maybe(t, token[events.SessionID]), Parent: maybe(t, short[events.TaskID]),
		Of:      one(t, events.TaskOther, events.TaskMonitor, events.TaskSubagent, events.TaskObserver, events.TaskTool),
		Cancel:  one(t, events.CancelCooperative, events.CancelAbortLocal, events.CancelExternal),
		Close:   one(t, events.CloseKeep, events.CloseCancel, events.CloseTransfer),
		Restart: one(t, events.RestartNever, events.RestartAlways), Runner: text(t), Args: bytes(t), Worker: maybe(t, token[events.WorkerID]),
		State: one(t, events.TaskPending, events.TaskRunning, events.TaskWaiting, events.TaskCancelling, events.TaskCompleted),
		From:  maybe(t, token[events.SessionID]), Attempt: count(t), Created: events.Millis(count(t)), Summary: text(t),
		Callers: list(t, 0, token[string]), Trace: maybe(t, traceParent),
	}
}

func monitor(t *rapid.T) events.MonitorSpec {
	env := rapid.MapOfN(rapid.StringMatching(`[A-Z_]{1,8}`), rapid.StringMatching(`[ -~]{0,20}`), 0, 3).Draw(t, "env")
	if len(env) == 0 {
		env = nil
	}
	return events.MonitorSpec{
		ID: short[events.MonitorID](t), Command: id[string](t), Environment: maybe(t, short[string]), Cwd: maybe(t, id[string]), Place: maybe(t, id[string]), Env: env,
		Persistent: rapid.Bool().Draw(t, "persistent"), TimeoutMillis: count(t), RestartOnRestore: rapid.Bool().Draw(t, "restart"),
		ArmOn: one(t, events.ArmManual, events.ArmSessionStart), Wake: one(t, events.WakeQueueTurn, events.WakeNotify),
	}
}

func output(t *rapid.T) []events.MonitorLine {
	return distinct(t, 1, func(t *rapid.T) events.MonitorLine {
		return events.MonitorLine{
			Sequence: count(t) + 1, Text: text(t), Stderr: rapid.Bool().Draw(t, "stderr"), Wake: maybe(t, token[events.InputID]),
		}
	}, func(l events.MonitorLine) int64 { return l.Sequence })
}

// hashes draws n hashes; none is nil.
func hashes(t *rapid.T, n int) []byte {
	if n == 0 {
		return nil
	}
	return exactly(t, n*events.DigestBytes)
}

func exactly(t *rapid.T, n int) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes")
}
