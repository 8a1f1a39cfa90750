package projector_test

import (
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// notStanding are the fields of a state that its view leaves out or has as own fields.
func notStanding() map[string]string {
	const own, life, work = "a field of the view itself", "the session's life and who it belongs to", "work and what it has cost"
	return map[string]string{
		"Session": own, "Seq": own, "Config": own, "Frames": own, "Leaf": own, "Nodes": own,
		"Status": life, "Opening": life, "ConfigSeq": life, "Replaced": life, "Parent": life, "Forked": life, "Labels": life, "Relation": life, "First": life, "Subagent": life, "Source": life,
		"Owner": life, "Grants": life, "CreatedAt": life, "UpdatedAt": life, "Copied": life, "Branched": life, "Moves": life, "Events": life, "Stored": life, "Proof": life, "Redacted": life,
		"Turns": work, "Run": work, "Queue": work, "Scheduled": work, "Worker": work, "Callers": work, "Unnotified": work, "Inputs": work, "Ledger": work, "Prompted": work, "Children": work,
		"Tasks": work, "Monitors": work, "Feed": work,
	}
}

// TestViewStands compares view and state at every sequence: the view has every field that is not in notStanding, and
// it does not change with the state.
func TestViewStands(t *testing.T) {
	t.Parallel()
	tool := events.ToolEntry{Name: "a", Description: "does a"}
	h := &history{t, projector.New(sid)}
	var views, again []projector.ReadView
	for _, commit := range [][]events.Payload{
		{&events.SessionOpened{Options: map[string]string{"p": `{"a":1}`}, Access: events.ToolAccess{Hidden: []string{"b"}}}},
		{&events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{tool}}},
		{&events.ToolSourcesApplied{Sources: []string{"b", "a"}}},
		{&events.SessionOverlaid{Tools: []events.ToolEntry{{Name: "over"}}, WithoutBase: true}},
		{&events.SessionExtended{Extension: events.Extension{Type: "x", Body: []byte(`{}`)}}},
		{&events.SessionExtended{Extension: events.Extension{Type: "y"}}},
		{&events.FrameConfigured{Options: []byte(`{"o":1}`)}},
		{&events.PluginStateSaved{Plugin: "q", Version: "1", Revision: 1, State: []byte(`1`)}},
		{&events.PluginStateSaved{Plugin: "p", Version: "1", Revision: 1, State: []byte(`1`)}},
		{&events.PluginStateSaved{Plugin: "q", Version: "1", Base: 1, Revision: 2, State: []byte(`2`)}},
		{&events.TurnPrepared{Contributions: []events.Contribution{{Slot: events.SlotGuidance, Content: "do"}}}},
		{&events.SessionOverlaid{}},
	} {
		h.add("", commit...)
		v := view(t, h.State)
		views, again = append(views, v), append(again, view(t, h.Clone()))
		h.CacheView(v)
		if shown := view(t, h.State); !reflect.DeepEqual(shown, v) {
			t.Errorf("at %d: got %+v where it is shown, want %+v", h.Seq, shown.Standing, v.Standing)
		}
		if string(v.Frame.Options) != string(h.Frame().Options) {
			t.Errorf("at %d: got options %s, want %s", h.Seq, v.Frame.Options, h.Frame().Options)
		}
		state, standing := reflect.ValueOf(h.Head), reflect.ValueOf(v.Standing)
		for i := range state.NumField() {
			name := state.Type().Field(i).Name
			shownAs := name
			if name == "Options" {
				shownAs = "PluginOptions"
			}
			want, got := state.Field(i), standing.FieldByName(shownAs)
			if name == "Overlay" {
				want = want.FieldByName("SessionOverlaid")
			}
			switch why := notStanding()[name]; {
			case got.IsValid() == (why != ""):
				t.Errorf("%s: is shown %t, and left out as %q", name, got.IsValid(), why)
			case got.IsValid() && !reflect.DeepEqual(got.Interface(), want.Interface()):
				t.Errorf("at %d: %s: got %+v, want %+v", h.Seq, name, got, want)
			}
		}
	}
	for i := range views {
		if !reflect.DeepEqual(views[i], again[i]) {
			t.Errorf("view at %d: has become %+v, want %+v", i+1, views[i].Standing, again[i].Standing)
		}
	}
	last := reflect.ValueOf(views[len(views)-2].Standing)
	for i := range last.NumField() {
		if last.Field(i).IsZero() {
			t.Errorf("%s: is empty in the end, and shows nothing", last.Type().Field(i).Name)
		}
	}
}
