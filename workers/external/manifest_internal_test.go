package external

import (
	"encoding/json"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestStoredManifestAboveTheLimits has a manifest in the store that this version refuses: a node starts, as if the plugin had none.
func TestStoredManifestAboveTheLimits(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	schema := `{"type":"object","properties":{"text":{"type":"string","pattern":"((((a{1000}){1000}){1000}){1000})"}}}`
	m := wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "write", Description: "Writes.", Schema: json.RawMessage(schema)}}}
	stored, err := json.Marshal(map[string]any{"hash": m.Hash(), "manifest": m, "life": "l", "count": 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Manifests().Update(t.Context(), "notes", func(bus.Row) ([]byte, error) { return stored, nil }); err != nil {
		t.Fatal(err)
	}
	logs, seen := observer.New(zap.WarnLevel)
	p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: "notes"}}, Logger: zap.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatalf("got %v, want a start", err)
	}
	defer p.Stop()
	if err := p.registry.Read(t.Context(), "notes"); err != nil {
		t.Errorf("the next read: got %v", err)
	}
	if n := seen.FilterMessageSnippet("the stored manifest is refused").Len(); n != 1 {
		t.Errorf("got %d lines of the log about it, want 1", n)
	}
	m.Version, m.Tools[0].Schema = "2", json.RawMessage(`{"type":"object"}`)
	data, err := json.Marshal(&wire.Registration{Protocol: wire.Version, Instance: "i1", Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	if hash, _, err := p.registry.Register("notes", wire.VerbRegister, data); err != nil || hash != m.Hash() {
		t.Errorf("register once more: got %s, %v, want %s", hash, err, m.Hash())
	}
}
