package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// signedQuestions are the withdrawn questions of the next sign of life.
func signedQuestions(t *testing.T, c *calls) (ids []string) {
	t.Helper()
	data, err := c.signed(wire.Sign{Hash: strings.Repeat("f", 64), Machine: strings.Repeat("m", wire.MaxMachine)})
	if err != nil || len(data) > wire.MaxSignBytes {
		t.Fatalf("sign: %d bytes, %v, want at most %d", len(data), err, wire.MaxSignBytes)
	}
	var sign wire.Sign
	if err := json.Unmarshal(data, &sign); err != nil {
		t.Fatal(err)
	}
	for _, q := range sign.Withdrawn {
		ids = append(ids, q.ID)
	}
	return ids
}

// waitThenEnd asks a question, and ends the wait for its answer.
func waitThenEnd(t *testing.T, c *calls, call wire.CallID, id string) {
	t.Helper()
	waitUntil(t, c, call, id, context.Canceled)
}

// waitUntil asks a question, and ends the wait for its answer with a cause.
func waitUntil(t *testing.T, c *calls, call wire.CallID, id string, cause error) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	_, err := c.asks(call, c.questions(call, func(ctx context.Context, _, _, _ string, _ json.RawMessage) (int, json.RawMessage, error) {
		end(cause)
		return 0, nil, context.Cause(ctx)
	}))(ctx, id, "Which one?", nil)
	if !errors.Is(err, cause) {
		t.Fatalf("got %v, want the cause of the end", err)
	}
}

// TestWithdrawnQuestions ends waits for answers. Signs of life name the questions until their calls are recorded, ten minutes have
// passed, or the tool waits again; all of them where they do not fit into one sign. Those of a cancelled call are not named, nor those
// that the end of the instance ends: another instance may continue their calls.
func TestWithdrawnQuestions(t *testing.T) {
	t.Parallel()
	c := newCalls(time.Minute)
	call, cancelled := wire.CallID{Session: "s", Call: "t1/0/0"}, wire.CallID{Session: "s", Call: "t1/0/1"}
	for _, id := range []wire.CallID{call, cancelled} {
		c.join(&wire.Call{CallID: id}, "reply", func(error) {}, accept)
	}
	c.stop(&wire.Cancel{CallID: cancelled})
	waitThenEnd(t, c, cancelled, "q0")
	if got := signedQuestions(t, c); len(got) > 0 {
		t.Errorf("of a cancelled call: got %v", got)
	}
	waitUntil(t, c, call, "q0", ErrStopped)
	if got := signedQuestions(t, c); len(got) > 0 {
		t.Errorf("at the end of the instance: got %v", got)
	}
	waitThenEnd(t, c, call, "q1")
	if got := signedQuestions(t, c); !slices.Equal(got, []string{"q1"}) {
		t.Errorf("got %v, want q1", got)
	}
	c.waitsAgain(wire.Question{CallID: call, ID: "q1"})
	if got := signedQuestions(t, c); len(got) > 0 {
		t.Errorf("while the tool waits again: got %v", got)
	}
	waitThenEnd(t, c, call, "q1")
	c.forgetOld(time.Now().Add(2 * time.Minute))
	if got := signedQuestions(t, c); len(got) > 0 {
		t.Errorf("after the time of outcomes: got %v", got)
	}
	for n := range maxWithdrawn + 10 {
		waitThenEnd(t, c, call, fmt.Sprint("many", n))
	}
	seen := make(map[string]bool)
	for range maxWithdrawn {
		for _, id := range signedQuestions(t, c) {
			seen[id] = true
		}
	}
	if len(seen) != maxWithdrawn || seen["many9"] || !seen["many10"] {
		t.Errorf("got %d questions in all signs, want the last %d", len(seen), maxWithdrawn)
	}
	c.recorded(call)
	if got := signedQuestions(t, c); len(got) > 0 {
		t.Errorf("after the record: got %v", got)
	}
}

// TestQuestionsAsRequests withdraws a question that a tool asks by a request, as programs on stdin and stdout do. No other request is a
// question.
func TestQuestionsAsRequests(t *testing.T) {
	t.Parallel()
	for request, want := range map[string][]string{
		"POST /v1/ask": {"q"}, "GET /v1/ask": nil, "POST /v1/ask?x=1": nil, "POST /v1/sessions": nil,
	} {
		c, call := newCalls(time.Minute), wire.CallID{Session: "s", Call: "c"}
		c.join(&wire.Call{CallID: call}, "reply", func(error) {}, accept)
		ctx, end := context.WithCancel(t.Context())
		method, path, _ := strings.Cut(request, " ")
		_, _, err := c.questions(call, func(ctx context.Context, _, _, _ string, _ json.RawMessage) (int, json.RawMessage, error) {
			end()
			return 0, nil, context.Cause(ctx)
		})(ctx, "q", method, path, nil)
		if got := signedQuestions(t, c); !errors.Is(err, context.Canceled) || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", request, got, err, want)
		}
	}
}

// TestQuestionThatIsLongFitsNoSign withdraws a question whose names are longer than a sign of life: it delays no other.
func TestQuestionThatIsLongFitsNoSign(t *testing.T) {
	t.Parallel()
	c := newCalls(time.Minute)
	long, short := wire.CallID{Session: "s", Call: events.EffectID(strings.Repeat("c", wire.MaxSignBytes))}, wire.CallID{Session: "s", Call: "c"}
	for _, id := range []wire.CallID{long, short} {
		c.join(&wire.Call{CallID: id}, "reply", func(error) {}, accept)
		waitThenEnd(t, c, id, "q-"+string(id.Call[:1]))
	}
	seen := 0
	for range 4 {
		seen += len(signedQuestions(t, c))
	}
	if seen == 0 {
		t.Error("the short question is in no sign")
	}
}
