package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// listener is the node that waits for a call of a child.
type listener struct {
	remote.Caller

	got []string
}

func (l *listener) Output(_, text string) { l.got = append(l.got, "output "+text) }

func (l *listener) Request(_ context.Context, id, _, _ string, _ json.RawMessage) (int, json.RawMessage, error) {
	return 200, nil, nil
}

// childOf is a child without a process that has registered, in which the calls run.
func childOf(calls ...string) (*child, map[string]*listener) {
	c := &child{
		log: zap.NewNop(), in: newQueue(), gone: make(chan struct{}), registered: make(chan *wire.Registration, 1), placed: make(chan *wire.Placed, 1),
		calls: make(map[wire.CallID]*running), hooks: make(map[hookKey]chan *wire.HookResult), end: func(error) {}, first: true,
	}
	listeners := make(map[string]*listener)
	for _, call := range calls {
		l := new(listener)
		listeners[call] = l
		c.calls[wire.CallID{Session: "s", Call: events.EffectID(call)}] = &running{on: l, outcome: make(chan *wire.Outcome, 1), request: func(cb *wire.Callback) { _, _, _ = l.Request(context.Background(), cb.ID, "", "", nil) }}
	}
	c.hooks[hookKey{"i", "h"}] = make(chan *wire.HookResult, 1)
	return c, listeners
}

// TestHostileLines sends lines of every type that are wrong in every way, in any order: fields of other types, deep and large values, texts
// that are no UTF-8, fields twice, other letters, ids of unknown calls and none, answers twice and before their requests. Each is ignored, or
// ends the child with an error; and what a call gets is of lines with its id only.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	types := []string{lineOutput, lineCallback, lineOutcome, lineHookResult, linePlaced, lineRegister, lineInit, lineCall, "other", "", "OUTCOME"}
	values := []string{
		`"text"`, `""`, "7", "-1", "1e999", "null", "true", "[]", "{}", `{"a":1}`, "\"\xff\xfe\"", `"\ud800"`, `"\u0000"`, strings.Repeat("[", 200) + strings.Repeat("]", 200),
		strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), `"` + strings.Repeat("x", 100_000) + `"`, "[" + strings.Repeat("1,", 140_000) + "1]",
	}
	fields := []string{"session", "call", "text", "stream", "id", "method", "path", "body", "failure", "cancelled", "attachments", "control", "emit", "invocation", "hook", "directives", "error", "type", "TYPE", "__proto__", ""}
	rapid.Check(t, func(t *rapid.T) {
		c, listeners := childOf("mine", "other")
		ended := false
		for n := range rapid.IntRange(1, 20).Draw(t, "lines") {
			kind, id := rapid.SampledFrom(types).Draw(t, "type"), rapid.SampledFrom([]string{"mine", "unknown", "", "mine"}).Draw(t, "call")
			line := fmt.Sprintf(`{"type":%q,"session":"s","call":%q`, kind, id)
			for range rapid.IntRange(0, 3).Draw(t, "fields") {
				line += fmt.Sprintf(`,%q:%s`, rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(values).Draw(t, "value"))
			}
			line += rapid.SampledFrom([]string{"}", "}", "}", "", "}}", "\x00"}).Draw(t, "end")
			if err := c.receive([]byte(line)); err != nil {
				ended = true
				if message := err.Error(); len(message) > 2000 {
					t.Fatalf("line %d: an error of %d bytes", n, len(message))
				}
				break
			}
		}
		c.work.Wait()
		if other := listeners["other"].got; len(other) > 0 || len(c.calls[wire.CallID{Session: "s", Call: "other"}].outcome) > 0 {
			t.Fatalf("the other call got %q, or an outcome", other)
		}
		if ended {
			return
		}
		for _, text := range []string{"first", "second"} { // the child still serves: the first answer counts
			if err := c.receive(fmt.Appendf(nil, `{"type":"outcome","session":"s","call":"other","text":%q}`, text)); err != nil {
				t.Fatal(err)
			}
		}
		if o := <-c.calls[wire.CallID{Session: "s", Call: "other"}].outcome; o.Text != "first" {
			t.Fatalf("got %+v, want the first outcome", o)
		}
	})
}
