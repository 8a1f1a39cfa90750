package builtin_test

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/budget"
	"github.com/lash-go/lash/workers/builtin/builtintest"
)

// TestProjection: what the model reads of an output.
func TestProjection(t *testing.T) {
	t.Parallel()
	const five = "one\ntwo\nthree\nfour\nfive\n"
	for name, c := range map[string]struct {
		o               budget.Options
		tool, out, want string
	}{
		"within_the_limits":    {budget.Options{MaxBytes: 24, MaxLines: 5}, "run", five, five},
		"too_many_lines":       {budget.Options{MaxLines: 2}, "run", five, "one\ntwo\n[lines 1 to 2 of 5, 24 bytes in all; read_output reads others of output t1/0/0]"},
		"too_many_bytes":       {budget.Options{MaxBytes: 10}, "run", five, "one\ntwo\n[lines 1 to 2 of 5, 24 bytes in all; read_output reads others of output t1/0/0]"},
		"the_end":              {budget.Options{MaxLines: 2, Tail: []string{"run"}}, "run", five, "four\nfive\n[lines 4 to 5 of 5, 24 bytes in all; read_output reads others of output t1/0/0]"},
		"a_long_line":          {budget.Options{MaxBytes: 4}, "run", "abcdefgh", "abcd [the line is cut]\n[lines 1 to 1 of 1, 8 bytes in all; read_output reads others of output t1/0/0]"},
		"cut_inside_a_rune":    {budget.Options{MaxBytes: 4}, "run", "abc\u00fcdef", "abc [the line is cut]\n[lines 1 to 1 of 1, 8 bytes in all; read_output reads others of output t1/0/0]"},
		"its_own_tool":         {budget.Options{MaxLines: 2}, "read_output", five, five},
		"negative_is_default":  {budget.Options{MaxBytes: -1, MaxLines: -7}, "run", five, five},
		"no_output":            {budget.Options{MaxBytes: 1}, "run", "", ""},
		"other_tools_have_top": {budget.Options{MaxLines: 1, Tail: []string{"other"}}, "run", "a\nb", "a\n[lines 1 to 1 of 2, 3 bytes in all; read_output reads others of output t1/0/0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := builtintest.Build(t, plugin.BuildContext{}, budget.Factory(c.o))
			view, projected := s.ProjectToolResult(t.Context(), plugin.ToolResultContext{
				Call: plugin.Call{Effect: "t1/0/0"}, Tool: c.tool, Result: plugin.Result{Text: c.out},
			})
			if got := view.Text; !projected || got != c.want || !utf8.ValidString(got) {
				t.Errorf("got %q, projected %t, want %q", view.Text, projected, c.want)
			}
		})
	}
}

// TestDefaults: an output is cut above 400 lines, and above 16 KiB.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, budget.Factory(budget.Options{}))
	for out, cut := range map[string]bool{
		strings.Repeat("a\n", 400): false, strings.Repeat("a\n", 401): true,
		strings.Repeat("a", 16<<10): false, strings.Repeat("a", 16<<10+1): true,
	} {
		view, _ := s.ProjectToolResult(t.Context(), plugin.ToolResultContext{Tool: "run", Result: plugin.Result{Text: out}})
		if (view.Text != out) != cut {
			t.Errorf("%d lines, %d bytes: got %d bytes, want it cut: %t", strings.Count(out, "\n"), len(out), len(view.Text), cut)
		}
	}
}

// outputs is a host with one output.
type outputs struct {
	plugin.Absent
	asked events.EffectID
}

func (h *outputs) ToolOutput(_ context.Context, _ events.SessionID, id events.EffectID) (string, error) {
	h.asked = id
	return "one\ntwo\nthree\n", nil
}

// TestReadOutput reads parts of an output.
func TestReadOutput(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, budget.Factory(budget.Options{MaxLines: 1}))
	for args, want := range map[string]string{
		`{"output":"t1/0/0"}`:           "one\n[lines 1 to 1 of 3,",
		`{"output":"t1/0/0","line":2}`:  "two\n[lines 2 to 2 of 3,",
		`{"output":"t1/0/0","line":-5}`: "one\n[lines 1 to 1 of 3,",
		`{"output":"t1/0/0","line":4}`:  "line 4: the output has 3",
		`{"line":1}`:                    "output",
	} {
		host := &outputs{}
		got, err := builtintest.Call(t, s, plugin.Call{Host: host}, "read_output", args)
		if err != nil {
			got.Text = err.Error()
		}
		if !strings.Contains(got.Text, want) {
			t.Errorf("%s: got %q, want %q in it", args, got.Text, want)
		}
		if strings.Contains(args, "t1") && host.asked != "t1/0/0" {
			t.Errorf("%s: got the output of %q read, want that of t1/0/0", args, host.asked)
		}
	}
}
