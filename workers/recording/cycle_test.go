package recording

import (
	"strings"
	"testing"
)

// TestParentsThatGoRound has an entry of pi that is its own parent: what a compaction retained is not found behind it, and is counted.
func TestParentsThatGoRound(t *testing.T) {
	t.Parallel()
	all, err := Read("f", strings.NewReader(`{"type":"session","version":3,"id":"s","timestamp":"2026-11-29T10:00:00Z","cwd":"/"}
{"type":"message","id":"m","parentId":null,"timestamp":"2026-11-29T10:00:01Z","message":{"role":"user","content":"hi"}}
{"type":"label","id":"a","parentId":"a","timestamp":"2026-11-29T10:00:02Z","targetId":"m","label":"x"}
{"type":"compaction","id":"c","parentId":"a","timestamp":"2026-11-29T10:00:03Z","summary":"so far","retainedTail":[{"role":"user","content":"hi"}]}
`))
	if err != nil || len(all) != 1 || all[0].Lost["messages that a compaction retained"] != 1 {
		t.Errorf("got %+v, %v, want one conversation that counts what is not kept", all, err)
	}
}
