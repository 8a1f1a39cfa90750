package watch

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// retract retracts the shown part of a reply that is not recorded, or is recorded with another text.
func (e *eventStream) retract() {
	if e.shown.text != "" || e.shown.reasoning != "" || len(e.shown.plugins) > 0 {
		e.emit(api.SessionEvent{Type: api.EventAttemptReset})
		e.shown.text, e.shown.reasoning, e.shown.plugins = "", "", nil
	}
}

// request emits the model call that the state needs, once for each worker that makes it.
func (e *eventStream) request() error {
	needs, t := turn.Next(e.s), e.running()
	if t == nil || !needs.Model {
		return nil
	}
	now := modelCall{known: true, attempt: t.Attempt, iteration: t.Iteration}
	if e.requested == now {
		return nil
	}
	e.requested, e.at = now, t.Iteration
	prompt, err := e.s.Prompt()
	if err != nil {
		return err
	}
	ev := e.emit(api.SessionEvent{Type: api.EventLLMRequest, MessageCount: len(prompt.Messages)})
	for i := range prompt.Tools {
		ev.ToolList = append(ev.ToolList, prompt.Tools[i].Name)
	}
	return nil
}

// delta emits a delta of the reply that the state needs. A delta ahead of the commits waits for them, because
// llm_request comes first.
func (e *eventStream) delta(d *api.Delta) {
	if !d.Output.IsZero() {
		e.output(d)
		return
	}
	t := e.running()
	if m := d.Message; !m.IsZero() {
		if t != nil {
			e.emit(api.SessionEvent{Type: api.EventMessage, Text: m.Text, Kind: m.Kind})
		}
		return
	}
	switch {
	case t == nil || d.Iteration > t.Iteration:
		e.pending = append(e.pending, *d)
		return
	case t.Replied || d.Iteration < t.Iteration:
		return
	}
	switch tryOf(d).compare(e.shown.try) {
	case -1:
		return
	case 1:
		e.retract()
		e.shown = shownReply{try: tryOf(d)}
	}
	e.show(d)
}

func (e *eventStream) show(d *api.Delta) {
	if d.N < e.shown.next {
		return
	}
	e.shown.cut = e.shown.cut || d.N > e.shown.next
	e.shown.next = d.N + 1
	if r := d.Retry; !r.IsZero() {
		e.emit(api.SessionEvent{
			Type: api.EventRetryStatus, WaitSeconds: float64(r.WaitMillis) / 1000,
			Attempt: r.Attempt, MaxAttempts: r.Attempts, Reason: r.Reason,
		})
	}
	switch {
	case e.shown.cut:
	case !d.Event.IsZero():
		e.shown.plugins = append(e.shown.plugins, d.Event)
		e.emit(api.SessionEvent{Type: api.EventPlugin, Plugin: d.Event.Plugin, Event: d.Event.Data})
	case d.Text == "":
	case d.Kind == events.PartReasoning:
		e.shown.reasoning += d.Text
		e.emit(api.SessionEvent{Type: api.EventReasoningDelta, Content: d.Text})
	case d.Kind == events.PartText:
		e.shown.text += d.Text
		e.emit(api.SessionEvent{Type: api.EventTextDelta, Content: d.Text})
	}
}

// output emits what a call prints.
func (e *eventStream) output(d *api.Delta) {
	if e.running() == nil {
		return
	}
	o := &d.Output
	e.emit(api.SessionEvent{
		Type: api.EventToolOutput, Call: o.Call, Text: o.Text, Stream: o.Stream, Offset: o.Offset, Attempt: d.Attempt, N: d.N,
	})
}
