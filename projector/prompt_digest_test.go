package projector_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// sum is the hex sha256 of length-prefixed fields, followed by tail.
func sum(tail []byte, fields ...string) string {
	var b []byte
	for _, f := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	s := sha256.Sum256(append(b, tail...))
	return hex.EncodeToString(s[:])
}

// TestPromptDigestOfPlugins rebuilds the digest with plugins' additions, as "Prompt digests" in FORMAT.md describes
// it.
func TestPromptDigestOfPlugins(t *testing.T) {
	t.Parallel()
	const link = "root" // the path is empty
	view := []events.ViewItem{{Message: message("v", events.RoleUser, text("short"))}}
	data, err := events.EncodePayload(&struct {
		View []events.ViewItem `msgpack:"v"`
	}{view})
	runtest.NoError(t, err)
	viewed := sum(nil, link, sum(data))
	system := "## Search\n\nSearch first.\n\nBe kind."
	texts := []events.Contribution{
		{Slot: events.SlotEnvironment, Content: " Be kind.\n"},
		{Slot: events.SlotGuidance, Content: "hidden", Tools: []string{"missing"}},
		{Slot: events.SlotIntro, Title: "Search", Content: "Search first."},
	}
	before := []events.HookPoint{events.PointBeforeTurn}
	atCall := func(list ...events.Decision) *events.HookRan {
		return &events.HookRan{Point: events.PointBeforeModel, Decisions: list}
	}
	contributes := func(id string, list ...events.Contribution) events.Decision {
		return events.Decision{Plugin: id, Kind: events.DirectiveContribute, Contributions: list}
	}
	first := events.Contribution{Slot: events.SlotIntro, Priority: -1, Content: "First."}
	last := events.Contribution{Slot: events.SlotIntro, Priority: 1, Content: "Last."}
	instructs := func(text string) events.Decision {
		return events.Decision{Plugin: "a", Kind: events.DirectiveSystemPrompt, Message: text}
	}
	for name, tc := range map[string]struct {
		points   []events.HookPoint
		prepared []events.Payload
		chain    string
		system   string
	}{
		"plain":       {before, nil, link, ""},
		"nothing":     {before, []events.Payload{&events.TurnPrepared{}}, link, ""},
		"view":        {before, []events.Payload{&events.TurnPrepared{Viewed: true, View: view}}, viewed, ""},
		"not_viewed":  {before, []events.Payload{&events.TurnPrepared{View: view}}, link, ""},
		"text":        {before, []events.Payload{&events.TurnPrepared{Contributions: texts}}, sum(nil, link, system), system},
		"closed_gate": {before, []events.Payload{&events.TurnPrepared{Contributions: texts[1:2]}}, link, ""},
		"not_owed":    {nil, []events.Payload{&events.TurnPrepared{Contributions: texts}}, link, ""},
		"view_and_text": {
			before,
			[]events.Payload{&events.TurnPrepared{Viewed: true, View: view, Contributions: texts}},
			sum(nil, viewed, system), system,
		},
		"kept": {
			before,
			[]events.Payload{&events.TurnPrepared{Contributions: texts}, &events.TurnPrepared{Viewed: true, View: view, Kept: true}},
			sum(nil, viewed, system), system,
		},
		"call": {
			before,
			[]events.Payload{&events.TurnPrepared{Contributions: texts}, atCall(contributes("a", last, first), instructs("Be."), instructs("You are."))},
			sum(nil, link, "You are.\n\nFirst.\n\n## Search\n\nSearch first.\n\nLast.\n\nBe kind."), "You are.\n\nFirst.\n\n## Search\n\nSearch first.\n\nLast.\n\nBe kind.",
		},
		"later_call": {
			nil,
			[]events.Payload{atCall(contributes("a", last), contributes("b", first)), atCall(), atCall(contributes("a", texts[0]), contributes("a", last))},
			sum(nil, link, "First.\n\nLast.\n\nBe kind."), "First.\n\nLast.\n\nBe kind.",
		},
		"call_without": {nil, []events.Payload{atCall(contributes("a", first)), atCall(contributes("a"))}, link, ""},
		"call_gated":   {nil, []events.Payload{atCall(contributes("a", texts[1]))}, link, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t).add("t1", &events.TurnRequested{Input: events.TurnInput{Continue: true}})
			h.add("t1", &events.TurnStarted{Attempt: 1, Worker: "w", Points: tc.points}).add("t1", tc.prepared...)
			got := prompt(t, h.State)
			want := sum([]byte{0, 0, 0}, "", "", "", "", string(h.Frame().ID), "", tc.chain)
			if got.Ref.Digest != want || got.System != tc.system {
				t.Errorf("got digest %s, system text %q, want %s, %q", got.Ref.Digest, got.System, want, tc.system)
			}
		})
	}
}

// TestPromptDigestOfConfig rebuilds the digest with the settings of a configuration and a turn.
func TestPromptDigestOfConfig(t *testing.T) {
	t.Parallel()
	const link = "root"
	sampling := events.Sampling{Temperature: "0", Stop: []string{"END"}}
	layers := []events.PromptLayer{{Slot: events.SlotGuidance, Op: events.LayerAdd, Title: "How", Content: " slowly "}}
	for name, tc := range map[string]struct {
		config events.Config
		input  events.TurnInput
		effort string
		chain  string
	}{
		"instructions": {config: events.Config{Instructions: "\nBe.\n"}, chain: sum(nil, link, "Be.")},
		"layers":       {config: events.Config{Instructions: "Be.", Layers: layers}, chain: sum(nil, link, "Be.\n\n## How\n\nslowly")},
		"turn_layers":  {config: events.Config{Layers: layers}, input: events.TurnInput{Layers: layers[:1]}, chain: sum(nil, link, "## How\n\nslowly\n\n## How\n\nslowly")},
		"sampling":     {config: events.Config{Sampling: sampling}, chain: sum(nil, link, encodedSum(t, sampling))},
		"turn": {
			config: events.Config{Effort: "low", Sampling: sampling}, effort: "high",
			input: events.TurnInput{Generation: events.Generation{Effort: "high", Sampling: events.Sampling{Seed: "1"}}},
			chain: sum(nil, link, encodedSum(t, events.Sampling{Temperature: "0", Seed: "1", Stop: []string{"END"}})),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.input.Continue = true
			h := begin(t).add("", &events.SessionConfigured{Config: tc.config}).add("t1", &events.TurnRequested{Input: tc.input})
			h.add("t1", &events.TurnStarted{Attempt: 1, Worker: "w"})
			want := sum([]byte{0, 0, 0}, "", "", tc.effort, "", string(h.Frame().ID), "", tc.chain)
			if got := prompt(t, h.State); got.Ref.Digest != want {
				t.Errorf("got digest %s, system text %q, want %s", got.Ref.Digest, got.System, want)
			}
		})
	}
}

// encodedSum is the hex sha256 of the msgpack map.
func encodedSum(t *testing.T, s events.Sampling) string {
	t.Helper()
	data, err := events.EncodePayload(&s)
	runtest.NoError(t, err)
	return sum(data)
}
