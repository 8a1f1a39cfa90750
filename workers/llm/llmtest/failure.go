package llmtest

import (
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// retryable repeats the rule of llm.Error independently.
func retryable(kind llm.ErrorKind) bool {
	return kind == llm.KindTransport || kind == llm.KindRateLimit || kind == llm.KindServer || kind == llm.KindMalformed || kind == llm.KindUnfinished
}

func testRefusals(t *testing.T, open OpenFunc) {
	t.Helper()
	for _, kind := range []llm.ErrorKind{llm.KindRateLimit, llm.KindServer, llm.KindAuth, llm.KindRequest, llm.KindOverflow} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := &received{}
			res, err := open(t, Refuse(kind)).Complete(t.Context(), request(), h.sink)
			checkError(t, err, kind)
			checkNothing(t, res)
			if len(h.deltas) != 0 {
				t.Errorf("deltas: got %d, want none", len(h.deltas))
			}
		})
	}
	t.Run("retry_after", func(t *testing.T) {
		t.Parallel()
		reply := Refuse(llm.KindRateLimit)
		reply.Refusal.RetryAfter = 1500 * time.Millisecond
		_, err := open(t, reply).Complete(t.Context(), request(), nil)
		if e := checkError(t, err, llm.KindRateLimit); e.RetryAfter != 1500*time.Millisecond {
			t.Errorf("retry after: got %v, want 1.5s", e.RetryAfter)
		}
	})
}

func testFaults(t *testing.T, open OpenFunc) {
	t.Helper()
	kinds := map[Fault]llm.ErrorKind{
		FaultCut: llm.KindTransport, FaultShort: llm.KindUnfinished, FaultGarbage: llm.KindMalformed, FaultError: llm.KindServer,
	}
	started := map[string]Reply{
		"nothing": {},
		"text":    Text("so ", "far"),
		"call": {Chunks: []Chunk{
			{Kind: events.PartText, Text: "so far"},
			{Kind: events.PartToolCall, Call: "call_a", Tool: "read", Text: `{"path":`},
		}},
	}
	for fault, kind := range kinds {
		for after, reply := range started {
			t.Run(string(fault)+"_after_"+after, func(t *testing.T) {
				t.Parallel()
				reply.Fault = fault
				h := &received{}
				res, err := open(t, reply).Complete(t.Context(), request(), h.sink)
				checkError(t, err, kind)
				checkNothing(t, res)
				if got, want := h.text(events.PartText), reply.text(events.PartText); got != want {
					t.Errorf("deltas before the fault: got %q, want %q", got, want)
				}
			})
		}
	}
}

// checkError expects an *llm.Error of that kind and returns a copy of it.
func checkError(t *testing.T, err error, kind llm.ErrorKind) llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Errorf("error: got %T %v, want *llm.Error of kind %s", err, err, kind)
		return llm.Error{}
	}
	if e.Kind != kind {
		t.Errorf("kind: got %s (%v), want %s", e.Kind, err, kind)
	}
	if e.Retryable() != retryable(kind) {
		t.Errorf("retryable: got %v, want %v", e.Retryable(), retryable(kind))
	}
	if n := utf8.RuneCountInString(e.Message); n == 0 || n > 4000 || !utf8.ValidString(e.Message) {
		t.Errorf("message: got %d characters (%s), want 1 to 4000 of valid UTF-8", n, short(e.Message))
	}
	return *e
}
