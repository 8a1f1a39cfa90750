package events_test

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
)

var (
	addedSampling   = events.Sampling{Temperature: "0.2", TopP: "1", Seed: "-7", Stop: []string{"END", "\n\n"}}
	addedGeneration = events.Generation{Effort: "low", MaxOutputTokens: 100, Sampling: addedSampling}
	addedTrace      = events.TraceParent{Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", State: "congo=t61rcWkgMzE"}
	addedFailed     = []events.FailedTry{{Error: "rate_limit", Code: "slow_down", Status: 429, Message: "later", Wait: 2000}}
)

// addedPayloads are events with fields that their kinds got after the golden file was written. The golden file stays
// unchanged; each addition has its own file.
var addedPayloads = map[string][]events.Payload{
	"generation": {
		&events.SessionConfigured{Config: events.Config{Model: "claude", Instructions: "Be brief.", Sampling: addedSampling}},
		&events.TurnRequested{Input: events.TurnInput{Parts: goldenParts, Generation: addedGeneration}},
	},
	"calls": {
		&events.ModelReplied{Prompt: goldenPrompt, Parts: goldenParts[:1], Stop: events.StopEnd, Attempts: 2, Failed: addedFailed},
		&events.ModelFailed{Prompt: goldenPrompt, Error: "server", Provider: "openai", Model: "m1", Raw: `{"error":"down"}`, Retryable: true, Failed: addedFailed},
	},
	"room":    {&events.ModelReplied{Prompt: events.PromptRef{Digest: goldenPrompt.Digest, Room: 9000}, Parts: goldenParts[:1], Stop: events.StopEnd}},
	"terms":   {&events.ToolCalled{Iteration: 1, Calls: []int64{0, 2}, Holders: []string{"", "01JD4Z5T8Q"}, Terms: []string{"", "01JD4Z5T8R"}}},
	"holders": {&events.ToolCalled{Iteration: 1, Calls: []int64{0, 2}, Holders: []string{"", "01JD4Z5T8Q"}}},
	"spent":   {&events.ModelReplied{Prompt: goldenPrompt, Parts: goldenParts[:1], Stop: events.StopEnd, Attempts: 2, Failed: addedFailed, Spent: events.Usage{Input: 9, Output: 3}}},
	"tools": {&events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{
		Name: "read", Namespace: "files", Aliases: []string{"open", "cat"},
	}}}},
	"layers": {
		&events.SessionConfigured{Config: events.Config{Layers: []events.PromptLayer{
			{Slot: events.SlotIntro, Op: events.LayerReplace, Title: "Who", Content: "You are."}, {Slot: events.SlotGuidance, Op: events.LayerClear},
		}}},
		&events.TurnRequested{Input: events.TurnInput{Continue: true, Layers: []events.PromptLayer{{Slot: events.SlotEnvironment, Op: events.LayerAdd, Content: "Here."}}}},
	},
	"fallbacks": {
		&events.SessionConfigured{Config: events.Config{Model: "m1", Fallbacks: []events.Fallback{{Model: "m2"}, {Provider: "anthropic", Model: "claude"}}}},
		&events.ModelFailed{Prompt: goldenPrompt, Error: "server", Model: "m2", Retryable: true, Fallback: events.FallbackTo{Place: 2, Provider: "anthropic", Model: "claude"}},
	},
	"trace": {
		&events.TurnRequested{Input: events.TurnInput{Continue: true}, Trace: addedTrace},
		&events.TurnScheduled{Input: events.TurnInput{Continue: true}, At: 1732180000123, Trace: addedTrace},
		&events.TaskRegistered{Task: "k1", Trace: addedTrace},
	},
	"places": {
		&events.HookRan{Point: events.PointBeforeTool, Decisions: []events.Decision{{Plugin: "gate", Kind: events.DirectiveJudgePlaces, Call: 1, Body: []byte(`{"path":"docs/a"}`)}}},
		&events.ToolApprovalAsked{Effect: "t1/1/2", Tool: "write_file", Plugin: "gate", Question: "Write?", Places: []byte(`{"path":"docs/a"}`)},
		&events.MonitorRegistered{Spec: events.MonitorSpec{ID: "log", Command: "tail -f log", Cwd: "/srv", Place: "docs"}},
	},
	"model_hooks": {&events.HookRan{Point: events.PointBeforeModel, Iteration: 1, Decisions: []events.Decision{
		{Plugin: "memory", Kind: events.DirectiveContribute, Contributions: []events.Contribution{{
			Slot: events.SlotGuidance, Title: "Notes", Priority: 2, Tools: []string{"note"}, Minimum: events.Overridden(events.AvailCallable), Content: "Two are open.",
		}}},
		{Plugin: "memory", Kind: events.DirectiveSystemPrompt, Message: "Be brief."},
		{Plugin: "memory", Kind: events.DirectiveSwitch, Name: "f2"},
	}}},
	"silence": {&events.SessionConfigured{Config: events.Config{Model: "o3", SilenceMillis: 1800000}}},
	"environment": {
		&events.SessionConfigured{Config: events.Config{Environment: "ci"}},
		&events.MonitorRegistered{Spec: events.MonitorSpec{ID: "log", Command: "tail -f log", Environment: "ci", Cwd: "logs"}},
	},
	"foreign":      {&events.ModelReplied{Prompt: goldenPrompt, Parts: goldenParts[:1], Stop: events.StopEnd, Foreign: 2}},
	"task_callers": {&events.TaskRegistered{Task: "k1", Callers: []string{"alice", "bob"}}},
	"answers":      {&events.TurnRequested{Input: events.TurnInput{Continue: true, Answers: "t7/0/2"}}},
	"output": {
		&events.TurnRequested{Input: events.TurnInput{Parts: goldenParts, Output: events.OutputForm{Name: "city", Schema: []byte(`{"type":"object"}`), Strict: true}}},
		&events.ModelReplied{Prompt: goldenPrompt, Parts: goldenParts[:1], Stop: events.StopEnd, Fault: "is no JSON"},
	},
}

// TestAddedGolden is [TestGolden] for additions.
func TestAddedGolden(t *testing.T) {
	t.Parallel()
	for name, payloads := range addedPayloads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := &events.Commit{
				ID: "01JD6Z0000000000000000000A", Session: "s1", At: 1732180000123,
				Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Cause: "cmd-1",
			}
			for _, p := range payloads {
				want.Events = append(want.Events, events.Of("t1", p))
			}
			checkGolden(t, filepath.Join("testdata", "golden", "added", name+".hex"), want)
		})
	}
}

// markAdded marks the fields that additions set.
func markAdded(set map[string]bool) {
	for _, payloads := range addedPayloads {
		for _, p := range payloads {
			markSet(set, reflect.ValueOf(p).Elem())
		}
	}
}
