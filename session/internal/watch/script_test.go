package watch_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/watch"
)

// play returns all events of the stream over the script, which starts with an open session.
func (s script) play(t *testing.T) []api.SessionEvent {
	t.Helper()
	var list []api.SessionEvent
	stream := watch.NewEventStream("t1", projector.New("s1"))
	next := func(o api.Observed) {
		got, err := stream.Next(o)
		runtest.NoError(t, err)
		list = append(list, got...)
	}
	for i, seq := 0, events.Seq(0); i <= len(s); i++ {
		if i > 0 && isDelta(s[i-1]) {
			d := s[i-1].(api.Delta)
			next(api.Observed{Delta: &d})
			continue
		}
		in := opened()
		if i > 0 {
			in = s[i-1].([]events.Event)
		}
		seq++
		c := &events.Commit{ID: events.CommitID(fmt.Sprint(seq)), Session: "s1", At: events.Millis(seq), Actor: events.Actor{Kind: events.ActorNode}, Events: in}
		runtest.NoError(t, c.Validate())
		next(api.Observed{Seq: seq, Commit: c})
	}
	return list
}

func isDelta(v any) bool { _, ok := v.(api.Delta); return ok }

func opened() []events.Event { return []events.Event{events.Of("", &events.SessionOpened{})} }

func of(list ...events.Payload) []events.Event {
	var out []events.Event
	for _, p := range list {
		out = append(out, events.Of("t1", p))
	}
	return out
}

func started() []events.Event {
	return of(&events.TurnRequested{Input: events.TurnInput{Parts: texts("hi")}}, &events.TurnStarted{Attempt: 1, Worker: "w1"})
}

func texts(s ...string) []events.Part {
	var list []events.Part
	for _, s := range s {
		list = append(list, events.Part{Kind: events.PartText, Text: s})
	}
	return list
}

func toolCall(id events.CallID, args string) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: "add", Args: []byte(args)}
}

// says is a reply of iteration n that used 10 and 5 tokens.
func says(n int64, parts ...events.Part) *events.ModelReplied {
	return &events.ModelReplied{Iteration: n, Parts: parts, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}, Millis: 7}
}

func ends(end events.TurnEnd) *events.TurnCompleted { return &events.TurnCompleted{End: end} }

// piece is delta n of an attempt of iteration 0.
func piece(attempt, n int64, text string) api.Delta {
	return api.Delta{Turn: "t1", Call: 1, Attempt: attempt, N: n, Kind: events.PartText, Text: text}
}

func thought(n int64, text string) api.Delta {
	d := piece(1, n, text)
	d.Kind = events.PartReasoning
	return d
}

func retry(failed int64) api.Delta {
	return api.Delta{Turn: "t1", Call: 1, Attempt: failed + 1, Retry: api.RetryStatus{WaitMillis: 1500, Attempt: failed, Attempts: 4, Reason: "busy"}}
}

// line renders an event as one line.
func line(e api.SessionEvent) string {
	words := []string{string(e.Type)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch e.Type {
	case api.EventTextDelta, api.EventReasoningDelta, api.EventLLMResponse:
		add("%d %q", e.Iteration, e.Content)
	case api.EventLLMRequest:
		add("%d messages=%d tools=%v", e.Iteration, e.MessageCount, e.ToolList)
	case api.EventTokenUsage:
		add("%d %d/%d of %d/%d", e.Iteration, e.Usage.Input, e.Usage.Output, e.Cumulative.Input, e.Cumulative.Output)
	case api.EventToolCallStart:
		add("%s %s%s", e.CallID, e.Name, e.Args)
	case api.EventToolCall:
		add("%s %s%s = %q %s %dms", e.CallID, e.Name, e.Args, e.Output, e.Outcome, e.DurationMillis)
	case api.EventRetryStatus:
		add("%d/%d %gs %s", e.Attempt, e.MaxAttempts, e.WaitSeconds, e.Reason)
	case api.EventInputAccepted:
		for _, in := range e.Inputs {
			add("%s %s %q", in.ID, in.Message.Role, in.Message.Parts[0].Text)
		}
		add("at %s", e.Checkpoint)
	case api.EventTurnOutcome:
		o := e.TurnOutcome
		for _, s := range []string{string(o.Type), o.Text, string(o.Reason), o.ToolName, o.Value, string(o.FrameID), o.Task} {
			if s != "" {
				add("%s", s)
			}
		}
	case api.EventError:
		add("%s %s %s %s: %s", e.Envelope.Kind, e.Envelope.Code, e.Envelope.TerminalReason, e.Envelope.ProviderFailureKind, e.Message)
	case api.EventPlugin:
		add("%s %s", e.Plugin, e.Event)
	case api.EventMessagesAdded:
		for _, m := range e.Messages {
			add("%s %q", m.Role, m.Parts[0].Text)
		}
		add("at %s", e.Checkpoint)
	case api.EventMessage:
		add("%s %q", e.Kind, e.Text)
	case api.EventChildTokenUsage:
		add("%s %s %s %d/%d of %d/%d", e.Session, e.Source, e.Model, e.Usage.Input, e.Usage.Output, e.Cumulative.Input, e.Cumulative.Output)
	case api.EventApprovalAsked:
		add("%s %s %s%s %s asks %q until %d", e.Call, e.CallID, e.Name, e.Args, e.Plugin, e.Question, e.Until)
	case api.EventApprovalGiven:
		add("%s %s %s granted=%v by %s: %s", e.Call, e.CallID, e.Name, *e.Granted, e.By, e.Reason)
	default:
	}
	return strings.Join(words, " ")
}

// asks is the approval request of a call.
func asks(call events.EffectID, args string, until events.Millis) *events.ToolApprovalAsked {
	return &events.ToolApprovalAsked{Effect: call, Tool: "add", Args: []byte(args), Plugin: "gate", Question: "really?", Until: until}
}

// answers is the answer to it.
func answers(call events.EffectID, granted bool) *events.ToolApprovalGiven {
	return &events.ToolApprovalGiven{Effect: call, Granted: granted, By: "ann", Reason: "I say so"}
}
