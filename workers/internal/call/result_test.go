package call

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// sized is a generated result, and the sizes of its bodies by field.
type sized struct {
	result events.ToolResult
	fields []bodySize // in the order in which they are checked
}

// drawSized draws a result whose bodies have up to most bytes each.
func drawSized(t *rapid.T, most int) sized {
	var s sized
	size := func(field string) int {
		n := rapid.IntRange(0, most).Draw(t, field)
		s.fields = append(s.fields, bodySize{field, n})
		return n
	}
	text := func(field string) string { return strings.Repeat("x", size(field)) }
	parts := func(field string) (list []events.Part) {
		for i := range rapid.IntRange(0, 3).Draw(t, field) {
			place := fmt.Sprintf("%s[%d]", field, i)
			if rapid.Bool().Draw(t, place+" calls") {
				list = append(list, events.Part{Kind: events.PartToolCall, Args: []byte(text(place))})
			} else {
				list = append(list, events.Part{Kind: events.PartAttachment, Text: text(place)})
			}
		}
		return list
	}
	s.result = events.ToolResult{Call: rapid.Int64Range(0, 9).Draw(t, "call"), Attempts: 2, Millis: 3}
	s.result.Text, s.result.Full, s.result.Attachments = text("text"), text("full"), parts("attachments")
	for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
		field := fmt.Sprintf("switch.nodes[%d]", i)
		n := events.NewNode{Body: []byte(text(field + ".body"))}
		n.Message.Parts = parts(field + ".message.parts")
		s.result.Switch.Nodes = append(s.result.Switch.Nodes, n)
	}
	return s
}

// TestCheckBodies draws results: the first body above the limit is named, with its size and the limit.
func TestCheckBodies(t *testing.T) {
	t.Parallel()
	const limit = 20
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSized(rt, limit+1)
		err := checkBodies(&s.result, limit)
		i := slices.IndexFunc(s.fields, func(b bodySize) bool { return b.size > limit })
		if i < 0 {
			if err != nil {
				rt.Fatalf("got %v, want none: no body is larger than %d", err, limit)
			}
			return
		}
		field := (*events.FieldError)(nil)
		want := fmt.Sprintf("%s: has %d bytes, limit is %d", s.fields[i].field, s.fields[i].size, limit)
		if !errors.As(err, &field) || !errors.Is(err, events.ErrTooLarge) || err.Error() != want {
			rt.Fatalf("got %v, want %q", err, want)
		}
	})
}

// TestResultBounded has each body of a tool's result at the limit, and one byte above it.
func TestResultBounded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", events.MaxBlobBytes+1)
	attached := func(text string) []events.Part {
		return []events.Part{{Kind: events.PartAttachment, Text: "small"}, {Kind: events.PartAttachment, Text: text}}
	}
	for field, result := range map[string]func(text string) plugin.Result{
		"text":           func(text string) plugin.Result { return plugin.Result{Text: text} },
		"attachments[1]": func(text string) plugin.Result { return plugin.Result{Attachments: attached(text)} },
		"switch.nodes[0].body": func(text string) plugin.Result {
			return plugin.Result{Control: events.ControlSwitch, Switch: events.FrameSwitch{Nodes: []events.NewNode{{Body: []byte(text)}}}}
		},
		"switch.nodes[0].message.parts[1]": func(text string) plugin.Result {
			n := events.NewNode{Message: events.Message{Parts: attached(text)}}
			return plugin.Result{Control: events.ControlSwitch, Switch: events.FrameSwitch{Nodes: []events.NewNode{n}}}
		},
	} {
		if got := resultOf(3, result(large[1:])); got.Outcome == events.OutcomeFailure || got.Call != 3 {
			t.Errorf("%s of %d bytes: got %q %.80q, want the result itself", field, events.MaxBlobBytes, got.Outcome, got.Text)
		}
		got := resultOf(3, result(large))
		text := fmt.Sprintf("[failed] %s: has %d bytes, limit is %d", field, len(large), events.MaxBlobBytes)
		if got.Outcome != events.OutcomeFailure || got.Class != plugin.ClassResourceLimit || got.Code != codeResultTooLarge || got.Text != text || got.Call != 3 {
			t.Errorf("%s of %d bytes: got %q %s %s %.80q, want a failure with %q", field, len(large), got.Outcome, got.Class, got.Code, got.Text, text)
		}
		if len(got.Attachments) != 0 || !got.Switch.IsZero() || got.Control != "" {
			t.Errorf("%s: got %d attachments, switch %t, control %q in the failure, want none", field, len(got.Attachments), !got.Switch.IsZero(), got.Control)
		}
	}
	failure := resultOf(0, failureOf(errors.New(large)))
	if failure.Class != plugin.ClassResourceLimit {
		t.Errorf("text of an error: got class %s, want %s", failure.Class, plugin.ClassResourceLimit)
	}
	short := directiveOutcome{result: &plugin.Result{Text: large}}
	if got := short.replacement(plugin.ClassExecution); got.Class != plugin.ClassResourceLimit {
		t.Errorf("result of a hook: got class %s, want %s", got.Class, plugin.ClassResourceLimit)
	}
}

// TestBoundedKeepsCall has a result that is too large in a call that was tried
// twice: the failure keeps what the call itself has.
func TestBoundedKeepsCall(t *testing.T) {
	t.Parallel()
	got := bounded(events.ToolResult{Call: 4, Attempts: 2, Millis: 7, Full: strings.Repeat("x", events.MaxBlobBytes+1)})
	if got.Call != 4 || got.Attempts != 2 || got.Millis != 7 || got.Full != "" || !strings.Contains(got.Text, "full: has") {
		t.Errorf("got call %d, %d attempts, %d ms, %.80q, want 4, 2, 7 and the failure of full", got.Call, got.Attempts, got.Millis, got.Text)
	}
}
