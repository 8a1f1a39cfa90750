package external

import (
	"encoding/json"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// TestEffectsTighten compiles tools with every pair of declared effects and effects of the operator. Stricter ones are the
// tool's; a registration whose effects the operator's would loosen is refused with its field.
func TestEffectsTighten(t *testing.T) {
	t.Parallel()
	const non, idempotent, none = events.EffectsNonIdempotent, events.EffectsIdempotent, events.EffectsNone
	for _, c := range []struct {
		declared, said, want events.Effects
		refused              bool
	}{
		{none, setting.NonIdempotent, non, false},
		{none, "", non, false},
		{none, idempotent, idempotent, false},
		{none, none, none, false},
		{idempotent, setting.NonIdempotent, non, false},
		{idempotent, idempotent, idempotent, false},
		{idempotent, none, idempotent, true},
		{non, setting.NonIdempotent, non, false},
		{non, idempotent, non, true},
		{non, none, non, true},
	} {
		settings := Plugin{Name: "notes", Effects: map[string]events.Effects{"write": c.said}}
		p, err := New(Config{Plugins: []Plugin{settings}})
		if err != nil {
			t.Fatal(err)
		}
		m := &wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: "look", Effects: none}, {Name: "write", Effects: c.declared}}}
		tools, err := node{p}.Compile("notes", m)
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := tools.Find("write"); tool.Effects != c.want || (tool.Holder != nil) != (c.want == non) {
			t.Errorf("declared %q, operator %q: got %q, want %q", c.declared, c.said, tool.Effects, c.want)
		}
		if tool, _ := tools.Find("look"); tool.Effects != none {
			t.Errorf("another tool: got %q, want what it declares", tool.Effects)
		}
		refused, ok := errors.AsType[*wire.Error](settings.Check(m))
		if ok != c.refused || ok && refused.Field != "manifest.tools[1].effects" {
			t.Errorf("declared %q, operator %q: got %v, want it refused: %v", c.declared, c.said, refused, c.refused)
		}
		p.Stop()
	}
}

// TestEffectsOfUnknownTools registers a manifest without a tool that the operator's effects name: the log names the tool.
func TestEffectsOfUnknownTools(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	p, err := New(Config{Bus: b, Logger: zap.New(core), Plugins: []Plugin{{
		Name: "weather", Effects: map[string]events.Effects{"forecast": setting.NonIdempotent, "weather": setting.NonIdempotent},
	}}})
	if err == nil {
		err = p.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	var answer wire.Registered
	registration := `{"protocol":1,"instance":"i","manifest":{"version":"1","tools":[{"name":"weather"}]}}`
	if err := json.Unmarshal(p.registry.Answer("weather", wire.VerbRegister, []byte(registration)), &answer); err != nil || answer.Error != nil {
		t.Fatalf("got %+v, %v, want it registered", answer.Error, err)
	}
	list := logged.FilterMessageSnippet("effects").All()
	if len(list) != 1 || list[0].ContextMap()["tool"] != "forecast" {
		t.Errorf("log: got %v, want the tool forecast only", list)
	}
}
