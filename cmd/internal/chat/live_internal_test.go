package chat

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestLiveTextIsEscaped shows each kind of text that is streamed while a turn runs, all its texts hostile.
func TestLiveTextIsEscaped(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]api.Delta{
		"text": {Kind: events.PartText, Text: hostile}, "reasoning": {Kind: events.PartReasoning, Text: hostile},
		"message": {Message: api.SideMessage{Text: hostile, Kind: hostile}}, "kind": {Kind: hostile, Text: hostile},
		"output": {Output: api.ToolOutput{Call: "t1/0/0", Stream: hostile, Text: hostile}, N: 1},
		"call":   {Output: api.ToolOutput{Call: hostile, Stream: hostile, Text: hostile}, N: 1},
		"retry":  {Retry: api.RetryStatus{WaitMillis: 1, Attempt: 1, Attempts: 2, Reason: hostile}},
		"event":  {Event: api.PluginEvent{Plugin: hostile, Data: []byte(`"` + hostile + `"`)}},
	} {
		for _, full := range []bool{false, true} {
			v := running(t, Options{Full: full, Live: true})
			v.out = nil
			d.Turn, d.Attempt = "t1", 1
			list, err := v.Seen(api.Observed{Delta: &d})
			runtest.NoError(t, err)
			all := slices.Clone(list)
			list, err = v.Seen(api.Observed{Gap: &api.Gap{Turn: "t1"}})
			runtest.NoError(t, err)
			visible(t, append(all, list...))
			if name != "reasoning" && name != "kind" && name != "call" && name != "event" && len(all) == 0 {
				t.Errorf("%s: nothing is shown", name)
			}
		}
	}
	d := reflect.TypeFor[api.Delta]()
	if n := d.NumField(); n != 11 {
		t.Errorf("a delta has %d fields, and this test knows 11: add what shows the new one", n)
	}
}
