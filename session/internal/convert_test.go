package internal_test

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/convert"
)

// TestOutcome has the outcome of each end of a turn. "said" is the last reply, "7" the result of the tool that ended it.
func TestOutcome(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ended events.TurnCompleted
		want  api.TurnOutcome
	}{
		"answer":            {events.TurnCompleted{End: events.EndFinished}, api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "said"}},
		"value_of_a_tool":   {events.TurnCompleted{End: events.EndToolValue, Tool: "sum"}, api.TurnOutcome{Type: api.OutcomeToolValue, ToolName: "sum", Value: "7"}},
		"requested_form":    {events.TurnCompleted{End: events.EndSubmitted}, api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: "said"}},
		"submitted_by_code": {events.TurnCompleted{End: events.EndSubmitted, Tool: "code"}, api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: "7"}},
		"next_frame": {events.TurnCompleted{End: events.EndSwitched, Switch: events.FrameSwitch{Frame: "f2", Task: "go on"}}, api.TurnOutcome{
			Type: api.OutcomeFrameSwitch, FrameID: "f2", Task: "go on",
		}},
		"error_of_a_tool": {events.TurnCompleted{End: events.EndToolError, Tool: "sum"}, api.TurnOutcome{
			Type: api.OutcomeStopped, Reason: events.EndToolError, ToolName: "sum", Value: "7",
		}},
		"cancelled": {events.TurnCompleted{End: events.EndCancelled}, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndCancelled}},
		"max_turns": {events.TurnCompleted{End: events.EndMaxTurns}, api.TurnOutcome{Type: api.OutcomeStopped, Reason: events.EndMaxTurns}},
	} {
		runtest.Equal(t, name, convert.Outcome(&c.ended, "said", "7"), c.want)
	}
}

// TestEnvelope has the provider's failure that ended a turn, and not one before a later reply.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	failed := &events.ModelFailed{Error: "overloaded", Raw: "503", Retryable: true}
	issue := events.Issue{Kind: "provider", Code: "overloaded"}
	var ended convert.TurnError
	ended.Add(&events.ModelReplied{Stop: events.StopToolUse})
	ended.Add(failed)
	got := ended.Envelope(issue)
	if got.ProviderFailureKind != failed.Error || got.Raw != "503" || got.Retryable == nil || !*got.Retryable || got.UserMessage != "overloaded" || got.TerminalReason != "" {
		t.Errorf("failure: got %+v, want that of the provider, and the code as message", got)
	}
	ended.Add(&events.ModelReplied{Stop: events.StopOutputLimit})
	issue.Message = "too long"
	got = ended.Envelope(issue)
	if got.ProviderFailureKind != "" || got.Retryable != nil || got.TerminalReason != events.StopOutputLimit || got.UserMessage != "too long" {
		t.Errorf("after a reply: got %+v, want its stop reason and no failure", got)
	}
}

// TestArgs is always JSON: models write other things, and nothing.
func TestArgs(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{"": "{}", `{"a":1}`: `{"a":1}`, `{"a":`: `"{\"a\":"`} {
		if got := string(convert.Args([]byte(args))); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
}

// TestText joins the texts of one kind.
func TestText(t *testing.T) {
	t.Parallel()
	parts := []events.Part{{Kind: events.PartText, Text: "a"}, {Kind: events.PartReasoning, Text: "b"}, {Kind: events.PartText, Text: "c"}}
	runtest.Equal(t, "text", convert.Text(parts, events.PartText), "ac")
	if got := convert.InputMessage(events.RoleUser, parts[:1]); got.Role != events.RoleUser || len(got.Parts) != 1 || got.Parts[0].Text != "a" {
		t.Errorf("got %+v, want one part", got)
	}
}

// TestLedger lists what each child used, under the source of its charge.
func TestLedger(t *testing.T) {
	t.Parallel()
	child := convert.Child(&events.UsageCharged{Child: "c", Source: "subagent", At: 4, Entries: []events.UsageEntry{
		{Model: "m1", Usage: events.Usage{Input: 3}}, {Model: "m2", Usage: events.Usage{Output: 5}},
	}})
	got := convert.Ledger(child)
	want := []projector.LedgerEntry{{Source: "subagent", Model: "m1", Usage: events.Usage{Input: 3}}, {Source: "subagent", Model: "m2", Usage: events.Usage{Output: 5}}}
	if child.Session != "c" || child.At != 4 || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v of %+v, want %+v", got, child, want)
	}
}
