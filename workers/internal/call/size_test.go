package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/workers/llm"
)

// TestTooLarge has messages of hooks that no body outside the log can hold.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	say := func(bytes int) []events.Message {
		return []events.Message{{ID: "m", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: strings.Repeat("x", bytes)}}}}
	}
	runtest.WantError(t, "too large", tooLarge(appended(say(events.MaxBlobBytes))), nil)
	if err := tooLarge(appended(say(events.MaxBlobBytes + 1))); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("got %v, want %v above the limit", err, events.ErrTooLarge)
	}
}

// TestCheckReply draws replies that are large by any of their fields: those that pass are the ones that the log takes.
func TestCheckReply(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkAgainstLog(t, largeReply(t)) })
	for bytes, want := range map[int]bool{100: true, events.MaxEventBytes: false} {
		p := &events.ModelReplied{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartToolCall, Call: "c", Tool: strings.Repeat("x", bytes), Args: []byte("{}")}}}
		if taken := checkAgainstLog(t, p); taken != want {
			t.Errorf("a name of %d bytes: taken %v, want %v", bytes, taken, want)
		}
	}
}

// checkAgainstLog reports whether checkReply takes a reply, which must be what the log says.
func checkAgainstLog(t rapid.TB, p *events.ModelReplied) bool {
	t.Helper()
	spilled, err := blob.Spill(context.Background(), kept{}, p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = events.Encode(&events.Commit{
		ID: "c", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("t1", spilled)},
	})
	got := checkReply(p, events.MaxEventBytes)
	if (got == nil) != (err == nil) {
		t.Fatalf("got %v, want what the log says: %v", got, err)
	}
	if failure, ok := errors.AsType[*llm.Error](got); got != nil && (!ok || failure.Code != "reply_too_large") {
		t.Errorf("got %v, want reply_too_large", got)
	}
	return got == nil
}

// largeReply draws a reply of equal parts, each of which has some bytes in one of its fields.
func largeReply(t *rapid.T) *events.ModelReplied {
	total := rapid.IntRange(100<<10, 512<<10).Draw(t, "bytes")
	size := rapid.SampledFrom([]int{1, 10, 100, 1000, 10_000, 100_000}).Draw(t, "bytes of one")
	long := strings.Repeat("x", size)
	part := rapid.SampledFrom([]events.Part{
		{Kind: events.PartText, Text: long},
		{Kind: events.PartReasoning, Text: long},
		{Kind: events.PartReasoning, Text: "x", Meta: []byte(long)},
		{Kind: events.PartToolCall, Call: events.CallID(long), Tool: "t", Args: []byte("{}")},
		{Kind: events.PartToolCall, Call: "c", Tool: long, Args: []byte("{}")},
		{Kind: events.PartToolCall, Call: "c", Tool: "t", Args: []byte(long)},
		{Kind: events.PartToolCall, Call: "c", Tool: "t", Meta: []byte(long)},
		{Kind: events.PartAttachment, MediaType: long, Text: "x"},
	}).Draw(t, "part")
	return &events.ModelReplied{Stop: events.StopEnd, Parts: slices.Repeat([]events.Part{part}, total/size/rapid.IntRange(1, 20).Draw(t, "fewer")+1)}
}

// TestTooLargeOfManyBodies has hooks say so many messages that the references to their bodies are what no event holds.
func TestTooLargeOfManyBodies(t *testing.T) {
	t.Parallel()
	many := func(n int) *events.GraphAppended {
		var list []events.Message
		for i := range n {
			list = append(list, events.Message{ID: events.MessageID(fmt.Sprint("m", i)), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: strings.Repeat("x", 4000)}}})
		}
		return appended(list)
	}
	runtest.WantError(t, "too large", tooLarge(many(100)), nil)
	runtest.WantError(t, "too large", tooLarge(many(1600)), events.ErrTooLarge)
}
