package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// TestEncoding checks the wire form of each operation's request and answer.
func TestEncoding(t *testing.T) {
	t.Parallel()
	var values []any
	for _, op := range operation.Named() {
		values = append(values, op.In, op.Out)
	}
	if len(values) < 70 {
		t.Fatalf("got %d types, want those of all operations", len(values))
	}
	eventstest.TestEncoding(t, append(values, plugin.CompletionDelta{})...)
}

// TestRows checks the rules of all rows.
func TestRows(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	once := func(what, value string) {
		if seen[what+value] {
			t.Errorf("%s %q stands in two rows", what, value)
		}
		seen[what+value] = true
	}
	// Operations that share another row's route.
	within := []operation.Name{operation.SubmitAt.Name, operation.CancelInputsFrom.Name}
	once("name", "listening") // a subject of package bus, for clients that follow an answer
	for _, r := range operation.All() {
		name := string(r.Name) + "/" + r.ID
		if r.Name != "" {
			once("name", string(r.Name))
		} else if r.Needs != api.RightRead && r != &operation.Fork.Row && r != operation.StreamCompletion {
			t.Errorf("%s: changes something, and has no name over NATS", name)
		}
		if looks := r.Repeat == operation.ReadOnly; looks != (r.Needs == api.RightRead) {
			t.Errorf("%s: needs %s and is repeated as %d: what looks only needs read, and nothing else does", name, r.Needs, r.Repeat)
		}
		if r.Needs == "" || r.Summary == "" || strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%s: has right %q and summary %q", name, r.Needs, r.Summary)
		}
		if r.Route == "" != slices.Contains(within, r.Name) || r.Route == "" != (r.ID == "") {
			t.Errorf("%s: has route %q", name, r.Route)
		}
		if r.Route != "" {
			method, path := r.HTTP()
			once("id", r.ID)
			once("route", method+" "+path)
		}
	}
}
