package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestManifestLimits: each manifest has one invalid field, and its refusal names the field.
func TestManifestLimits(t *testing.T) {
	t.Parallel()
	many := make([]wire.Tool, wire.MaxTools+1)
	for i := range many {
		many[i].Name = fmt.Sprint("t", i)
	}
	for name, c := range map[string]struct {
		manifest wire.Manifest
		field    string
	}{
		"no_version":            {wire.Manifest{}, "manifest.version"},
		"long_version":          {wire.Manifest{Version: strings.Repeat("1", wire.MaxVersionBytes+1)}, "manifest.version"},
		"unknown_scope":         {wire.Manifest{Version: "1", Scope: "node"}, "manifest.scope"},
		"too_many_tools":        {wire.Manifest{Version: "1", Tools: many}, "manifest.tools"},
		"name_is_no_token":      {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a.b"}}}, "manifest.tools[0].name"},
		"name_twice":            {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a"}, {Name: "a"}}}, "manifest.tools[1].name"},
		"large_schema":          {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", Schema: make(json.RawMessage, wire.MaxSchemaBytes+1)}}}, "manifest.tools[0].schema"},
		"large_description":     {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", Description: strings.Repeat("d", wire.MaxDescription+1)}}}, "manifest.tools[0].description"},
		"negative_timeout":      {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", TimeoutMS: -1}}}, "manifest.tools[0].timeout_ms"},
		"endless_timeout":       {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", TimeoutMS: 31_536_000_001}}}, "manifest.tools[0].timeout_ms"},
		"overflowing_timeout":   {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", TimeoutMS: 1<<63 - 1}}}, "manifest.tools[0].timeout_ms"},
		"valid_timeout":         {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", TimeoutMS: 31_536_000_000}}}, ""},
		"unknown_effects":       {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", Effects: "some"}}}, "manifest.tools[0].effects"},
		"valid":                 {wire.Manifest{Version: "1", Tools: many[:wire.MaxTools]}, ""},
		"valid_without_tools":   {wire.Manifest{Version: "1"}, ""},
		"valid_with_everything": {wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a", Description: "d", Schema: json.RawMessage(`{}`), Effects: events.EffectsNone, TimeoutMS: 1, Serial: true}}}, ""},
	} {
		err := c.manifest.Validate()
		refused, ok := errors.AsType[*events.FieldError](err)
		if c.field == "" && err != nil || c.field != "" && (!ok || refused.Field != c.field) {
			t.Errorf("%s: got %v, want a refusal of %q", name, err, c.field)
		}
	}
}

// TestInstanceName refuses ids that are no token, and the one that names all instances.
func TestInstanceName(t *testing.T) {
	t.Parallel()
	for id, valid := range map[string]bool{"i1": true, "": false, "a.b": false, "*": false, wire.All: false} {
		r := wire.Registration{Instance: id, Manifest: wire.Manifest{Version: "1"}}
		if err := r.Validate(); (err == nil) != valid {
			t.Errorf("instance %q: got %v, want valid: %v", id, err, valid)
		}
	}
}

// TestHash is the same for equal manifests, and another one for every change.
func TestHash(t *testing.T) {
	t.Parallel()
	base := wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a"}}}
	same := wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "a"}}}
	if base.Hash() == "" || base.Hash() != same.Hash() {
		t.Errorf("hashes of equal manifests: got %q and %q", base.Hash(), same.Hash())
	}
	for name, other := range map[string]wire.Manifest{
		"version": {Version: "2", Tools: base.Tools}, "no_tools": {Version: "1"},
		"effects": {Version: "1", Tools: []wire.Tool{{Name: "a", Effects: events.EffectsNone}}},
	} {
		if other.Hash() == base.Hash() {
			t.Errorf("%s: the hash of another manifest is the same", name)
		}
	}
}

// TestEncode leaves characters as they are, and refuses what no server takes.
func TestEncode(t *testing.T) {
	t.Parallel()
	got, err := wire.Encode(&wire.Outcome{Text: "<a & b>"})
	if err != nil || string(got) != `{"text":"<a & b>"}` {
		t.Errorf("got %s, %v, want the text as it is", got, err)
	}
	_, err = wire.Encode(&wire.Outcome{Text: strings.Repeat("a", wire.MaxMessageBytes)})
	if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != wire.CodeTooLarge {
		t.Errorf("got %v, want %s", err, wire.CodeTooLarge)
	}
}
