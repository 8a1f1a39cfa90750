package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/history"
)

// conversation has turns of a question, a call, its result of some bytes, and an answer.
func conversation(turns, bytes int) (list []events.Message) {
	for i := range turns {
		id := events.CallID(fmt.Sprint("c", i))
		n := func(kind string) events.MessageID { return events.MessageID(fmt.Sprint(kind, i)) }
		list = append(list, builtintest.Said(n("u"), events.RoleUser, fmt.Sprint("question ", i)),
			events.Message{ID: n("a"), Role: events.RoleAssistant, Parts: []events.Part{{Kind: events.PartToolCall, Call: id, Tool: "run", Args: []byte("{}")}}},
			events.Message{ID: n("r"), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: id, Tool: "run", Text: strings.Repeat("x", bytes)}}},
			builtintest.Said(n("b"), events.RoleAssistant, fmt.Sprint("answer ", i)))
	}
	return list
}

func prune(t *testing.T, o history.Options, window, last int64, list []events.Message) []events.Message {
	t.Helper()
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(o))
	state := builtintest.State(t, events.Config{ContextWindow: window})
	got, err := s.PrepareContext(t.Context(), plugin.TransformContext{State: state, LastPrompt: last}, plugin.Prepared{Messages: list})
	runtest.NoError(t, err)
	return got.Messages
}

// TestPrune: large results of turns before the last two are replaced once the window is as full as the options say.
func TestPrune(t *testing.T) {
	t.Parallel()
	list := conversation(4, 5000)
	for name, c := range map[string]struct {
		o            history.Options
		window, last int64
		replaced     int
	}{
		"no_window":         {window: 0, last: 1 << 40},
		"window_not_full":   {window: 100_000, last: 59_999},
		"window_full":       {window: 100_000, last: 60_000, replaced: 2},
		"by_the_estimate":   {window: 8000, last: 0, replaced: 2}, // 4 results of 5000 bytes are 5000 tokens
		"another_percent":   {o: history.Options{PrunePercent: 10}, window: 100_000, last: 10_000, replaced: 2},
		"results_are_small": {o: history.Options{ResultBytes: 5000}, window: 100_000, last: 60_000},
		"negative_options":  {o: history.Options{PrunePercent: -1, ResultBytes: -1}, window: 100_000, last: 60_000, replaced: 2},
	} {
		got := prune(t, c.o, c.window, c.last, list)
		replaced := 0
		for i := range got {
			if p := got[i].Parts[0]; p.Kind == events.PartToolResult && p.Text == "[the result of run, 5000 bytes, is no longer shown]" {
				replaced++
			}
		}
		if len(got) != len(list) || replaced != c.replaced {
			t.Errorf("%s: got %d messages, %d replaced, want %d and %d", name, len(got), replaced, len(list), c.replaced)
		}
	}
	if len(list[2].Parts[0].Text) != 5000 {
		t.Error("the messages of the session have changed")
	}
}

// TestAttachments of old turns become a line.
func TestAttachments(t *testing.T) {
	t.Parallel()
	list := conversation(3, 1)
	for i := range list {
		if strings.HasPrefix(list[i].Text(), "question") {
			list[i].Parts = append(list[i].Parts, events.Part{Kind: events.PartAttachment, MediaType: "image/png"})
		}
	}
	got := prune(t, history.Options{}, 100_000, 60_000, list)
	for i, want := range map[int]string{0: "[attachment image/png is no longer shown]", 4: "", 8: ""} {
		if p := got[i].Parts[1]; p.Text != want || (p.Kind == events.PartAttachment) != (want == "") {
			t.Errorf("message %d: got %q %q, want %q", i, p.Kind, p.Text, want)
		}
	}
}

// TestNearTheLimit shows the newest turns alone, whole, from a question on, and says what is left out.
func TestNearTheLimit(t *testing.T) {
	t.Parallel()
	list := conversation(6, 4000)
	got := prune(t, history.Options{ResultBytes: 1 << 20}, 4000, 4000, list) // half of 3000 tokens: one turn of 1000
	if len(got) != 5 || !strings.Contains(got[0].Text(), "20 earlier messages of this conversation are left out") || got[1].Text() != "question 5" {
		t.Fatalf("got %d messages from %q on, want a note and the last turn", len(got), got[0].Text())
	}
	if one := prune(t, history.Options{}, 100, 100, list); len(one) != 5 {
		t.Errorf("a turn above the window: got %d messages, want a note and the whole turn", len(one))
	}
}

// TestWindowHoldsReply: what a reply may have is kept free in the window, whatever the percent of pruning is.
func TestWindowHoldsReply(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(history.Options{}))
	list := conversation(5, 12_000) // 15 000 tokens
	for most, full := range map[int64]bool{0: false, 20_000: false, 28_000: true} {
		state := builtintest.State(t, events.Config{ContextWindow: 40_000, MaxOutputTokens: most})
		got, err := s.PrepareContext(t.Context(), plugin.TransformContext{State: state}, plugin.Prepared{Messages: list})
		if changed := fmt.Sprint(got.Messages) != fmt.Sprint(list); err != nil || changed != full {
			t.Errorf("replies of %d tokens: pruned %v, %v, want %v", most, changed, err, full)
		}
	}
}

// model is a host whose model gives a summary.
type model struct {
	plugin.Absent
	says  string
	err   error
	asked []events.Message // by the last request
	ends  []events.StopReason
	most  int64 // tokens that the window holds; 0: any
	calls int
	sizes []int64
}

func (m *model) Complete(_ context.Context, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	if source != "compaction" {
		return plugin.Completion{}, errors.New("source " + source)
	}
	m.asked = req.Messages
	size := projector.Tokens(req.Messages)
	if m.most > 0 && size > m.most {
		m.sizes = append(m.sizes, -size)
		return plugin.Completion{}, fmt.Errorf("complete: %w", api.ErrContextOverflow)
	}
	m.sizes = append(m.sizes, size)
	reply := plugin.Completion{Text: m.says, Stop: events.StopEnd}
	if m.calls < len(m.ends) {
		reply.Stop = m.ends[m.calls]
	}
	m.calls++
	return reply, m.err
}

// TestCompact: the model summarises what is older than the part that stays.
func TestCompact(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(history.Options{Keep: 1500}))
	state := builtintest.State(t, events.Config{}, conversation(4, 4000)...)
	host := &model{says: "much was asked"}
	got, err := s.Compact(t.Context(), plugin.TransformContext{State: state, Host: host})
	if err != nil || len(got.Value.Nodes) != 1 || got.Value.Keep != "u3" {
		t.Fatalf("got %+v, %v, want one node before u3", got.Value, err)
	}
	if want := "Summary of the conversation so far:\n\nmuch was asked"; got.Value.Nodes[0].Message.Text() != want {
		t.Errorf("summary: got %q, want %q", got.Value.Nodes[0].Message.Text(), want)
	}
	if n := len(host.asked); n != 1+12+1 { // instructions, three turns, the request
		t.Errorf("request: got %d messages, want 14", n)
	}
	for _, m := range host.asked {
		for _, p := range m.Parts {
			if p.Kind != events.PartText {
				t.Errorf("request: got a part of kind %q, want text alone", p.Kind)
			}
		}
	}
}

// TestCompactFails: without a summary nothing is compacted, and a conversation that stays whole asks no model.
func TestCompactFails(t *testing.T) {
	t.Parallel()
	long, short := builtintest.State(t, events.Config{}, conversation(4, 40_000)...), builtintest.State(t, events.Config{}, conversation(2, 10)...)
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(history.Options{}))
	if _, err := s.Compact(t.Context(), plugin.TransformContext{State: long, Host: &model{}}); err == nil || !errors.Is(err, api.ErrCompletion) || !strings.Contains(err.Error(), "was blank") {
		t.Errorf("no summary: got %v, want an error", err)
	}
	if _, err := s.Compact(t.Context(), plugin.TransformContext{State: long, Host: &model{err: errors.New("no model")}}); err == nil || !strings.Contains(err.Error(), "no model") {
		t.Errorf("no model: got %v, want its error", err)
	}
	host := &model{says: "x"}
	if got, err := s.Compact(t.Context(), plugin.TransformContext{State: short, Host: host}); err != nil || len(got.Value.Nodes) > 0 || host.asked != nil {
		t.Errorf("short conversation: got %+v, %v, asked %d messages, want nothing", got.Value, err, len(host.asked))
	}
}

// TestSummaryIsWhole: a reply that is no whole summary is asked for once more, and never takes the place of a conversation.
func TestSummaryIsWhole(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(history.Options{Keep: 1500}))
	state := builtintest.State(t, events.Config{}, conversation(4, 4000)...)
	cut := events.StopOutputLimit
	for name, c := range map[string]struct {
		says  string
		ends  []events.StopReason
		calls int
		why   string
	}{
		"whole":        {"all of it", []events.StopReason{events.StopEnd}, 1, ""},
		"cut_once":     {"half of it", []events.StopReason{cut, events.StopEnd}, 2, ""},
		"cut_twice":    {"half of it", []events.StopReason{cut, cut}, 2, "was cut off by the limit of its length"},
		"refused":      {"no", []events.StopReason{events.StopContentFilter, events.StopContentFilter}, 2, "was refused"},
		"blank":        {" \n", nil, 2, "was blank"},
		"unknown_end":  {"half", []events.StopReason{events.StopUnknown, events.StopUnknown}, 2, `ended with "unknown"`},
		"refused_then": {"fine", []events.StopReason{events.StopContentFilter, events.StopEnd}, 2, ""},
	} {
		host := &model{says: c.says, ends: c.ends}
		got, err := s.Compact(t.Context(), plugin.TransformContext{State: state, Host: host})
		if host.calls != c.calls || (err == nil) != (c.why == "") || (err == nil) != (len(got.Value.Nodes) == 1) || err != nil && (!errors.Is(err, api.ErrCompletion) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %d calls, got %+v, %v, want %d calls and the reason %q", name, host.calls, got.Value, err, c.calls, c.why)
		}
	}
}

// TestCompactInParts: a conversation that is larger than the window is summarised part by part, and no part is lost.
func TestCompactInParts(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, history.Factory(history.Options{Keep: 1000, ResultBytes: 1 << 20}))
	list := conversation(12, 8000) // of 2000 tokens each
	for name, c := range map[string]struct{ window, most int64 }{"window": {10_000, 9_000}, "refusals": {0, 9_000}} {
		host := &model{says: "so far", most: c.most}
		got, err := s.Compact(t.Context(), plugin.TransformContext{State: builtintest.State(t, events.Config{ContextWindow: c.window}, list...), Host: host})
		if err != nil || len(got.Value.Nodes) != 1 || host.calls < 3 {
			t.Errorf("%s: %d calls, got %+v, %v, want a summary of several parts", name, host.calls, got.Value, err)
		}
		if refused := slices.ContainsFunc(host.sizes, func(n int64) bool { return n < 0 }); refused != (c.window == 0) {
			t.Errorf("%s: sizes of requests are %d", name, host.sizes)
		}
		if first := host.asked[1].Text(); first != "Summary of the conversation so far:\n\nso far" {
			t.Errorf("%s: the last part begins with %q, want the summary of those before", name, first)
		}
	}
}
