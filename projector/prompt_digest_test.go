package projector_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/lash-go/lash/events"
)

// sum is the hex sha256 of the fields, each behind its length, and then of tail.
func sum(tail []byte, fields ...string) string {
	var b []byte
	for _, f := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	s := sha256.Sum256(append(b, tail...))
	return hex.EncodeToString(s[:])
}

// TestPromptDigestOfPlugins rebuilds the digest as FORMAT.md of package events
// says under "Prompt digests", with what plugins add to a prompt.
func TestPromptDigestOfPlugins(t *testing.T) {
	t.Parallel()
	const link = "root" // nothing stands on the path
	view := []events.ViewItem{{Message: message("v", events.RoleUser, text("short"))}}
	data, err := events.EncodePayload(&struct {
		View []events.ViewItem `msgpack:"v"`
	}{view})
	if err != nil {
		t.Fatal(err)
	}
	viewed := sum(nil, link, sum(data))
	system := "## Search\n\nSearch first.\n\nBe kind."
	texts := []events.Contribution{
		{Slot: events.SlotEnvironment, Content: " Be kind.\n"},
		{Slot: events.SlotGuidance, Content: "hidden", Tools: []string{"missing"}},
		{Slot: events.SlotIntro, Title: "Search", Content: "Search first."},
	}
	before := []events.HookPoint{events.PointBeforeTurn}
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
