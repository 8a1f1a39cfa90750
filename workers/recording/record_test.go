package recording_test

import (
	"testing"

	"github.com/lash-go/lash/workers/recording"
)

// TestCancelledResultsOfRecords reads a record with two cancelled calls. The text of the tool that returned one is a result,
// the runtime's own is none.
func TestCancelledResultsOfRecords(t *testing.T) {
	t.Parallel()
	got := entries(t, `{"version":"1","id":"r","session":{"session-id":"s","agent-meta":{},"entries":[`+
		`{"type":"user","id":"u","content":"go"},`+
		`{"type":"assistant","id":"a","parent-id":"u"},`+
		`{"type":"tool-call","id":"c1","message-id":"a","name":"sh","call-id":"1","input":{}},`+
		`{"type":"tool-call","id":"c2","message-id":"a","name":"sh","call-id":"2","input":{}},`+
		`{"type":"tool-result","id":"r1","message-id":"r","parent-id":"a","call-id":"1","tool":"sh","outcome":"cancelled","is-error":true,"output":"half done"},`+
		`{"type":"tool-result","id":"r2","message-id":"r","parent-id":"a","call-id":"2","tool":"sh","outcome":"cancelled","is-error":true,"output":"[cancelled] The call was cancelled."}]}}`)
	var results []recording.Result
	for i := range got {
		if got[i].Kind == recording.EntryResult {
			results = append(results, got[i].Result)
		}
	}
	if len(results) != 1 || results[0].Call != "1" || results[0].Text != "half done" || !results[0].Failed {
		t.Errorf("results: got %+v, want the one that its tool returned", results)
	}
}
