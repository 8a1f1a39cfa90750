package llmtest

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// patience limits the wait for something that must happen at once.
const patience = 20 * time.Second

// OpenFunc returns a provider that responds to its n-th call with replies[n], and after the last reply with the last
// one again.
type OpenFunc func(t *testing.T, replies ...Reply) llm.Provider

// TestProvider tests the contract of [llm.Provider].
func TestProvider(t *testing.T, open OpenFunc) {
	t.Helper()
	t.Run("reply", func(t *testing.T) { t.Parallel(); testReplies(t, open) })
	t.Run("stop", func(t *testing.T) { t.Parallel(); testStops(t, open) })
	t.Run("refusal", func(t *testing.T) { t.Parallel(); testRefusals(t, open) })
	t.Run("fault", func(t *testing.T) { t.Parallel(); testFaults(t, open) })
	t.Run("cancel", func(t *testing.T) { t.Parallel(); testCancel(t, open) })
	t.Run("deadline", func(t *testing.T) { t.Parallel(); testDeadline(t, open) })
	t.Run("concurrent", func(t *testing.T) { t.Parallel(); testConcurrent(t, open) })
	t.Run("order", func(t *testing.T) { t.Parallel(); testOrder(t, open) })
}

// request is a call that any reply fits.
func request() llm.Request {
	return llm.Request{
		Session: "s1", Turn: "t1", Iteration: 1, Effect: "t1/1/model", Model: "model-1",
		Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "go on"}}}},
		Tools: []llm.Tool{
			{Name: "list", Description: "Lists files.", InputSchema: []byte(`{"type":"object","properties":{"dir":{"type":"string"}}}`)},
			{Name: "read", Description: "Reads a file.", InputSchema: []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
		},
	}
}

// received is what a sink received.
type received struct{ deltas []llm.Delta }

func (h *received) sink(d llm.Delta) { h.deltas = append(h.deltas, d) }

func (h *received) text(kind events.PartKind) string {
	var b strings.Builder
	for _, d := range h.deltas {
		if d.Kind == kind {
			b.WriteString(d.Text)
		}
	}
	return b.String()
}

// replies are the valid replies, which every provider must return part by part.
func replies() map[string]Reply {
	readme := Chunk{Kind: events.PartToolCall, Index: 0, Call: "call_a", Tool: "read"}
	list := Chunk{Kind: events.PartToolCall, Index: 1, Call: "call_b", Tool: "list"}
	args := func(i int, s string) Chunk { return Chunk{Kind: events.PartToolCall, Index: i, Text: s} }
	think := func(s string) Chunk { return Chunk{Kind: events.PartReasoning, Text: s} }
	say := func(s string) Chunk { return Chunk{Kind: events.PartText, Text: s} }
	usage := events.Usage{Input: 120, Output: 45, CacheRead: 30, Reasoning: 12}
	use := events.StopToolUse
	return map[string]Reply{
		"text":     Text("Hello", ", ", "wörld", " 🦉\n", "\"quoted\" \\ <tag>\t"),
		"empty":    {Stop: events.StopEnd},
		"one_call": {Stop: use, Chunks: []Chunk{readme, args(0, `{"pa`), args(0, `th":"a\"b`), args(0, `.txt"}`)}},
		"parallel_calls": {Stop: use, Chunks: []Chunk{
			readme, args(0, `{"path":`), list, args(1, `{"dir":"`), args(0, `"x"}`), args(1, `Ünïcode"}`),
		}},
		"text_and_call":      {Stop: use, Chunks: []Chunk{say("Let me "), say("look."), readme, args(0, `{"path":"y"}`)}},
		"reasoning":          {Stop: events.StopEnd, Chunks: []Chunk{think("Hmm, "), think("well…"), say("Yes.")}},
		"reasoning_and_call": {Stop: use, Chunks: []Chunk{think("I need it."), say("Looking."), readme, args(0, `{"path":"z"}`)}},
		"usage":              {Stop: events.StopEnd, Usage: usage, Chunks: []Chunk{think("1"), say("2")}},
		"mebibyte":           Text(strings.SplitAfter(strings.Repeat(strings.Repeat("0123456789abcd", 4)+"0123é\n", 1<<14), "\n")[:1<<14]...),
		"one_big_chunk":      Text(strings.Repeat("é", 1<<20)),
	}
}

func testReplies(t *testing.T, open OpenFunc) {
	t.Helper()
	for name, reply := range replies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &received{}
			res, err := open(t, reply).Complete(t.Context(), request(), h.sink)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			checkResponse(t, res, reply)
			checkDeltas(t, h, reply)
		})
	}
	t.Run("without_sink", func(t *testing.T) {
		t.Parallel()
		reply := Text("a", "b")
		res, err := open(t, reply).Complete(t.Context(), request(), nil)
		if err != nil {
			t.Fatalf("Complete: %v", err)
		}
		checkResponse(t, res, reply)
	})
}

func checkResponse(t *testing.T, res llm.Response, want Reply) {
	t.Helper()
	checkParts(t, res.Parts, want.Parts())
	if res.Stop != want.Stop {
		t.Errorf("stop: got %q, want %q", res.Stop, want.Stop)
	}
	if res.Usage != want.Usage {
		t.Errorf("usage: got %+v, want %+v", res.Usage, want.Usage)
	}
	if n := utf8.RuneCountInString(res.Detail); n > 4000 {
		t.Errorf("detail: got %d characters, want at most 4000", n)
	}
}

func checkParts(t *testing.T, got, want []events.Part) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("parts: got %d, want %d", len(got), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Kind != w.Kind || g.Call != w.Call || g.Tool != w.Tool {
			t.Errorf("part %d: got %s %q %q, want %s %q %q", i, g.Kind, g.Call, g.Tool, w.Kind, w.Call, w.Tool)
		}
		if g.Text != w.Text {
			t.Errorf("part %d text: got %s, want %s", i, short(g.Text), short(w.Text))
		}
		if !bytes.Equal(g.Args, w.Args) {
			t.Errorf("part %d arguments: got %s, want %s", i, short(string(g.Args)), short(string(w.Args)))
		}
	}
}

func checkDeltas(t *testing.T, h *received, want Reply) {
	t.Helper()
	for _, kind := range []events.PartKind{events.PartText, events.PartReasoning} {
		if got, want := h.text(kind), want.text(kind); got != want {
			t.Errorf("%s deltas: got %s, want %s", kind, short(got), short(want))
		}
	}
	for i, d := range h.deltas {
		if !utf8.ValidString(d.Text) {
			t.Errorf("delta %d: got %q, want whole characters", i, d.Text)
		}
		if d.Kind != events.PartText && d.Kind != events.PartReasoning {
			t.Errorf("delta %d: got kind %q, want text or reasoning", i, d.Kind)
		}
	}
}

// short is s for a message.
func short(s string) string {
	if len(s) > 200 {
		return strconv.Quote(s[:200]) + "… of " + strconv.Itoa(len(s)) + " bytes"
	}
	return strconv.Quote(s)
}

func testStops(t *testing.T, open OpenFunc) {
	t.Helper()
	for _, stop := range []events.StopReason{events.StopEnd, events.StopOutputLimit, events.StopContentFilter} {
		t.Run(string(stop), func(t *testing.T) {
			t.Parallel()
			reply := Text("so far")
			reply.Stop = stop
			res, err := open(t, reply).Complete(t.Context(), request(), nil)
			if err != nil {
				t.Fatalf("Complete: %v", err)
			}
			checkResponse(t, res, reply)
		})
	}
}

func testOrder(t *testing.T, open OpenFunc) {
	t.Helper()
	p := open(t, Text("first"), Refuse(llm.KindServer), Text("last"))
	if p.ID() == "" {
		t.Error("id: got none")
	}
	for i, want := range []string{"first", "", "last", "last"} {
		res, err := p.Complete(t.Context(), request(), nil)
		if (err != nil) != (want == "") {
			t.Fatalf("call %d: got error %v", i, err)
		}
		if got := (events.Message{Parts: res.Parts}).Text(); got != want {
			t.Errorf("call %d: got %q, want %q", i, got, want)
		}
	}
}

func testConcurrent(t *testing.T, open OpenFunc) {
	t.Helper()
	const calls = 16
	var scripts []Reply
	want := map[string]bool{}
	for i := range calls {
		r := Text("reply ", strconv.Itoa(i), strings.Repeat(" "+strconv.Itoa(i), 50))
		scripts = append(scripts, r)
		want[r.text(events.PartText)] = true
	}
	p := open(t, scripts...)
	got := make([]string, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			h := &received{}
			res, err := p.Complete(t.Context(), request(), h.sink)
			if err != nil {
				t.Errorf("call %d: %v", i, err)
			}
			got[i] = (events.Message{Parts: res.Parts}).Text()
			if h.text(events.PartText) != got[i] {
				t.Errorf("call %d: deltas %q, text %q", i, h.text(events.PartText), got[i])
			}
		})
	}
	wg.Wait()
	for i, text := range got {
		if !want[text] {
			t.Errorf("call %d: got %q, want a scripted reply nobody else got", i, text)
		}
		delete(want, text)
	}
}

func testCancel(t *testing.T, open OpenFunc) {
	t.Helper()
	reply := Text("thinking about", " it")
	reply.Fault = FaultHang
	p := open(t, reply)
	stopped := errors.New("the user pressed escape")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	res, err := within(t, func() (llm.Response, error) {
		return p.Complete(ctx, request(), func(llm.Delta) { cancel(stopped) })
	})
	if !errors.Is(err, context.Canceled) && !errors.Is(err, stopped) {
		t.Errorf("cancelled in a reply: got %v, want it to wrap %v or %v", err, context.Canceled, stopped)
	}
	checkNothing(t, res)
	_, err = within(t, func() (llm.Response, error) { return p.Complete(ctx, request(), nil) })
	if !errors.Is(err, context.Canceled) && !errors.Is(err, stopped) {
		t.Errorf("cancelled before: got %v, want it to wrap %v or %v", err, context.Canceled, stopped)
	}
}

func testDeadline(t *testing.T, open OpenFunc) {
	t.Helper()
	p := open(t, Reply{Fault: FaultHang})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	res, err := within(t, func() (llm.Response, error) { return p.Complete(ctx, request(), nil) })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want it to wrap %v", err, context.DeadlineExceeded)
	}
	checkNothing(t, res)
}

// within runs call and fails the test if it does not return in time.
func within(t *testing.T, call func() (llm.Response, error)) (llm.Response, error) {
	t.Helper()
	type outcome struct {
		res llm.Response
		err error
	}
	done := make(chan outcome, 1)
	go func() { // ends with call; if that never returns, the test fails here
		res, err := call()
		done <- outcome{res, err}
	}()
	guard, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	select {
	case o := <-done:
		return o.res, o.err
	case <-guard.Done():
		t.Fatalf("Complete did not return within %v", patience)
		return llm.Response{}, nil
	}
}

// checkNothing expects no parts from a failed call. It may have a usage.
func checkNothing(t *testing.T, res llm.Response) {
	t.Helper()
	if len(res.Parts) != 0 || res.Stop != "" || res.Detail != "" {
		t.Errorf("response beside an error: got %+v, want at most usage and model", res)
	}
}
