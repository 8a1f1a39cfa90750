package turn_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// TestOfferedTools: the event has the list of the plugins itself where hosts have set no level, and one of its own
// otherwise: sessions share the list of the plugins.
func TestOfferedTools(t *testing.T) {
	t.Parallel()
	a, b, c := events.ToolEntry{Name: "a"}, events.ToolEntry{Name: "b"}, events.ToolEntry{Name: "c"}
	off := func(e events.ToolEntry) events.ToolEntry { e.Override = "off"; return e }
	orphan := func(e events.ToolEntry) events.ToolEntry { e.Orphan = true; return e }
	for name, tt := range map[string]struct {
		have, want []events.ToolEntry // want nil: no event
		own        bool
	}{
		"none":               {nil, []events.ToolEntry{a, b}, false},
		"same":               {[]events.ToolEntry{a, b}, nil, false},
		"less":               {[]events.ToolEntry{b}, []events.ToolEntry{a, b}, false},
		"other":              {[]events.ToolEntry{a, b, c}, []events.ToolEntry{a, b}, false},
		"same_and_a_level":   {[]events.ToolEntry{a, off(b)}, nil, false},
		"other_and_a_level":  {[]events.ToolEntry{off(a)}, []events.ToolEntry{off(a), b}, true},
		"level_of_gone_tool": {[]events.ToolEntry{a, b, off(c)}, []events.ToolEntry{a, b, orphan(off(c))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := []events.ToolEntry{a, b}
			have := slices.Clone(tt.have)
			got := turn.OfferEvent(&projector.Catalog{Generation: 3, Tools: have}, tools)
			var want *events.ToolStateApplied
			if tt.want != nil {
				want = &events.ToolStateApplied{Generation: 4, Tools: tt.want}
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
			if got != nil && (&got.Tools[0] == &tools[0]) == tt.own {
				t.Errorf("got a list of its own %t, want %t", !tt.own, tt.own)
			}
			if !reflect.DeepEqual(tools, []events.ToolEntry{a, b}) || !reflect.DeepEqual(have, tt.have) {
				t.Errorf("the inputs have changed: %+v, %+v", tools, have)
			}
		})
	}
}
