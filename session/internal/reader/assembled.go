package reader

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/convert"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// AssembledTurn is a finished turn with its replies and calls. Its outcome, usage and times come from the fold; its
// replies, calls and durations, which the fold does not keep, from the commits after the end of the turn before. Errors:
// [api.ErrUnknownTurn], [api.ErrTurnRunning] for a turn that has not ended, those of [events.Log.Read] and of blobs.
func (r *Reader) AssembledTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return api.AssembledTurn{}, fmt.Errorf("assemble turn %s: %w", turn, err)
	}
	a, blobs := &assembly{turn: turn}, blob.Bounded(r.b)
	record, from, err := finished(s, turn)
	if err != nil {
		return api.AssembledTurn{}, fmt.Errorf("assemble turn %s of session %s: %w", turn, id, err)
	}
	for entry, err := range r.log.Read(ctx, id, from) {
		if err == nil && entry.Seq > record.Seq {
			break
		}
		if err == nil {
			err = a.commit(ctx, blobs, entry.Commit)
		}
		if err != nil {
			return api.AssembledTurn{}, fmt.Errorf("assemble turn %s: %w", turn, err)
		}
	}
	out := a.assemble(record)
	out.ChildrenUsage, err = r.childrenUsage(ctx, id, from, a.child)
	return out, err
}

// childrenUsage is the usage that the charges of one turn added. It reads the state before the turn for the charges
// before, and only for turns with charges.
func (r *Reader) childrenUsage(ctx context.Context, id events.SessionID, from events.Seq, charges []*events.UsageCharged) ([]api.ChildUsage, error) {
	if len(charges) == 0 {
		return []api.ChildUsage{}, nil
	}
	before, err := r.StateAt(ctx, id, from)
	if err != nil {
		return nil, fmt.Errorf("usage of children: %w", err)
	}
	after := slices.Clone(before.Children)
	for _, p := range charges {
		i := slices.IndexFunc(after, func(c projector.ChildUsage) bool { return c.Session == p.Child })
		switch {
		case i < 0:
			after = append(after, convert.Child(p))
		case after[i].At < p.At:
			after[i] = convert.Child(p)
		}
	}
	sum, err := projector.UsageSince(convert.Ledger(before.Children...), convert.Ledger(after...))
	list := make([]api.ChildUsage, len(sum))
	for i, e := range sum {
		list[i] = api.ChildUsage{Source: e.Source, Model: e.Model, Usage: convert.Usage(e.Usage)}
	}
	return list, err
}

// finished finds a turn's record, and the sequence of the commit that ended the turn before it.
func finished(s *projector.State, turn events.TurnID) (record projector.TurnRecord, from events.Seq, err error) {
	records, err := s.Records()
	if err != nil {
		return record, 0, err
	}
	for i := range records {
		if records[i].ID == turn {
			return records[i], from, nil
		}
		if records[i].By == "" { // a diverted turn ended while another one ran
			from = records[i].Seq
		}
	}
	place, err := s.FindTurn(turn)
	switch {
	case err != nil:
		return record, 0, err
	case place.Known():
		return record, 0, api.ErrTurnRunning
	}
	return record, 0, api.ErrUnknownTurn
}

// assembly collects the facts of one turn from its commits.
type assembly struct {
	turn     events.TurnID
	calls    []assembledCall
	last     string // text of the last reply
	prose    string // of the last reply with text
	shown    string // prose as users see it
	cut      string // streamed text of an interrupted reply
	cause    convert.TurnError
	ended    *events.TurnCompleted
	diverted *events.TurnDiverted
	code     bool
	inner    bool // code called tools
	started  bool
	child    []*events.UsageCharged

	models    []api.ModelCallRecord
	failed    bool // the last code failed
	recovered bool // code failed, or an answer did not have the requested form
}

// assembledCall is a call with its place in the turn.
type assembledCall struct {
	api.ToolCallRecord
	iteration, index int64
	done             bool
}

func (a *assembly) commit(ctx context.Context, blobs blob.Reader, c *events.Commit) error {
	for i := range c.Events {
		ev := &c.Events[i]
		if p, ok := ev.Payload.(*events.UsageCharged); ok && a.started {
			a.child = append(a.child, p)
		}
		if ev.Turn != a.turn {
			continue
		}
		a.cause.Add(ev.Payload)
		switch ev.Payload.(type) {
		case *events.ModelReplied, *events.ModelInterrupted, *events.ToolReturned:
			p, err := blob.FillPayload(ctx, blobs, ev.Payload)
			if err != nil {
				return err
			}
			a.event(p)
		default:
			a.event(ev.Payload)
		}
	}
	return nil
}

func (a *assembly) event(p events.Payload) {
	switch p := p.(type) {
	case *events.ModelReplied:
		a.replied(p)
	case *events.ModelInterrupted:
		a.cut = convert.Text(p.Parts, events.PartText)
	case *events.ToolReturned:
		for i := range p.Results {
			a.result(p.Iteration, &p.Results[i])
		}
	case *events.ToolLost:
		for _, call := range p.Calls {
			a.result(p.Iteration, &events.ToolResult{Call: call, Outcome: events.OutcomeLost, Text: projector.LostText})
		}
	case *events.ModelFailed:
		a.modelFailed(p)
	case *events.TurnStarted:
		a.started = true
	case *events.ToolNestedCalled:
		a.inner = true
	case *events.TurnCompleted:
		a.ended = p
	case *events.TurnDiverted:
		a.diverted = p
	}
}

func (a *assembly) replied(p *events.ModelReplied) {
	a.cut = "" // it is from a model that a fallback replaced
	a.models = append(a.models, api.ModelCallRecord{
		Iteration: p.Iteration, Provider: p.Provider, Model: p.Model, Stop: p.Stop, Fault: p.Fault, DurationMillis: p.Millis,
		Usage: convert.Usage(p.Cost()), Attempts: max(p.Attempts, 1), Failed: failedTries(p.Failed),
	})
	a.recovered = a.recovered || p.Fault != ""
	if a.last = convert.Text(p.Parts, events.PartText); a.last != "" {
		a.prose, a.shown = a.last, a.last
		if len(p.Shown) > 0 {
			a.shown = convert.Text(p.Shown, events.PartText)
		}
	}
	for index, c := range turn.ToolCalls(p.Parts) {
		a.code = a.code || c.Tool == plugin.ToolCode
		record := api.ToolCallRecord{Call: turn.ToolEffect(a.turn, p.Iteration, index), CallID: c.Call, Tool: c.Tool, Args: convert.Args(c.Args)}
		a.calls = append(a.calls, assembledCall{ToolCallRecord: record, iteration: p.Iteration, index: index})
	}
}

func (a *assembly) modelFailed(p *events.ModelFailed) {
	tries := append(failedTries(p.Failed), api.FailedTry{Kind: p.Error, Code: p.Code, Status: p.Status, Message: p.Message})
	a.models = append(a.models, api.ModelCallRecord{
		Iteration: p.Iteration, Provider: p.Provider, Model: p.Model, Attempts: max(p.Attempts, 1), Failed: tries,
	})
}

func failedTries(list []events.FailedTry) []api.FailedTry {
	out := make([]api.FailedTry, len(list))
	for i, f := range list {
		out[i] = api.FailedTry{Kind: f.Error, Code: f.Code, Status: f.Status, Message: f.Message, WaitSeconds: float64(f.Wait) / 1000}
	}
	return out
}

func (a *assembly) result(iteration int64, r *events.ToolResult) {
	for i := range a.calls {
		c := &a.calls[i]
		if c.iteration == iteration && c.index == r.Call && !c.done {
			c.Output, c.Outcome, c.DurationMillis, c.done = blob.Output(r), r.Outcome, r.Millis, true
			if c.Tool == plugin.ToolCode {
				a.failed = r.Outcome == events.OutcomeFailure
				a.recovered = a.recovered || a.failed
			}
		}
	}
}

// outputOf is the output of a call of the last reply with calls.
func (a *assembly) outputOf(call int64) string {
	text := ""
	for i := range a.calls {
		if a.calls[i].index == call {
			text = a.calls[i].Output
		}
	}
	return text
}

func (a *assembly) outcome(r *projector.TurnRecord) api.TurnOutcome {
	if a.diverted != nil {
		return convert.Diverted(a.diverted)
	}
	return convert.Outcome(a.ended, a.last, a.outputOf(r.Call))
}

// outputState classifies the output for users. Code alone shows nothing; prose that a plugin hides counts as output.
func (a *assembly) outputState(shown string, end events.TurnEnd) api.OutputState {
	switch {
	case shown == "" && a.failed:
		return api.OutputTraceback
	case a.prose == "", shown == "" && a.code:
		return api.OutputEmpty
	case a.recovered && !end.Stopped():
		return api.OutputRecovered
	}
	return api.OutputUsable
}

func (a *assembly) assemble(r projector.TurnRecord) api.AssembledTurn {
	t := api.AssembledTurn{
		Turn: r.ID, Seq: r.Seq, Outcome: a.outcome(&r), HadToolCalls: a.inner, HadCode: a.code,
		StartedAt: r.StartedAt, DurationMillis: r.Lasted(), Usage: convert.Usage(r.Usage), ToolCalls: []api.ToolCallRecord{},
		Output: api.AssistantOutput{SafeText: a.shown, RawText: a.prose},
		Errors: []api.ErrorEnvelope{}, Protocol: cmp.Or(r.Protocol, events.StandardProtocol), ModelCalls: append([]api.ModelCallRecord{}, a.models...),
	}
	for i := range a.calls {
		t.ToolCalls = append(t.ToolCalls, a.calls[i].ToolCallRecord)
		t.HadToolCalls = t.HadToolCalls || a.calls[i].Tool != plugin.ToolCode
	}
	if t.Outcome.Type == api.OutcomeSubmittedValue {
		a.prose = t.Outcome.Value
		t.Output.SafeText, t.Output.RawText = a.prose, a.prose
	}
	if a.prose == "" && a.cut != "" {
		a.prose = a.cut
		t.Output.RawText = a.cut
	}
	t.Output.State = a.outputState(t.Output.SafeText, r.End)
	if r.Cancel.Request != "" {
		t.Cancellation = &api.Cancellation{ID: r.Cancel.Request, Origin: r.Cancel.Origin, Reason: r.Cancel.Reason}
	}
	if !r.Issue.IsZero() {
		t.Errors = append(t.Errors, a.cause.Envelope(r.Issue))
	}
	return t
}
