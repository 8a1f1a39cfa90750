package builtin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// TestWants: the protocol and its tool are those of sessions that name it, or none.
func TestWants(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]bool{"": true, "standard": true, "code": false, "Standard": false} {
		for name, factory := range map[string]plugin.Factory{"protocol": standard.Factory(), "batch": standard.Batch()} {
			wants, ok := factory.(interface {
				Wants(plugin.BuildContext) bool
			})
			if !ok || wants.Wants(plugin.BuildContext{Config: events.Config{Protocol: protocol}}) != want {
				t.Errorf("%s of a session with the protocol %q: want it there: %t", name, protocol, want)
			}
		}
	}
}

// nested makes a call whose nested calls succeed with their arguments, unless the tool is named otherwise.
func nested(seen *[]plugin.NestedCall) plugin.Call {
	return plugin.Call{Run: plugin.Running{Nested: func(_ context.Context, first int, list []plugin.NestedCall) []plugin.NestedResult {
		*seen = list
		out := make([]plugin.NestedResult, len(list))
		for i, c := range list {
			out[i].Result = plugin.Result{Outcome: events.OutcomeSuccess, Text: fmt.Sprint(first+i, string(c.Args))}
			switch c.Tool {
			case "fails":
				out[i].Outcome = events.OutcomeFailure
			case "finish":
				out[i].Control, out[i].Text = events.ControlFinish, "over"
			case "breaks":
				out[i].Err = errors.New("the worker stops")
			}
		}
		return out
	}}}
}

// TestBatch makes the calls in their order, and refuses those that no batch makes, each by itself.
func TestBatch(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, standard.Batch())
	for name, c := range map[string]struct {
		calls, want string
		nested      int
	}{
		"empty":            {``, `[]`, 0},
		"in_order":         {`{"tool":"a","parameters":{"y":2,"x":1}},{"tool":"b"}`, `[{"tool":"a","success":true,"result":"0{\"x\":1,\"y\":2}"},{"tool":"b","success":true,"result":"1"}]`, 2},
		"a_batch_inside":   {`{"tool":"batch"},{"tool":"a"}`, `[{"tool":"batch","success":false,"error":"a batch cannot hold a batch"},{"tool":"a","success":true,"result":"0"}]`, 1},
		"a_failed_call":    {`{"tool":"fails"},{"tool":"a"}`, `[{"tool":"fails","success":false,"error":"0"},{"tool":"a","success":true,"result":"1"}]`, 2},
		"a_call_that_ends": {`{"tool":"a"},{"tool":"finish"},{"tool":"finish"}`, `over`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []plugin.NestedCall
			got, err := builtintest.Call(t, s, nested(&seen), "batch", `{"tool_calls":[`+c.calls+`]}`)
			if err != nil || got.Text != c.want || len(seen) != c.nested {
				t.Errorf("got %s, %v, from %d calls, want %s from %d", got.Text, err, len(seen), c.want, c.nested)
			}
			if ends := c.want == "over"; (got.Control == events.ControlFinish) != ends {
				t.Errorf("control: got %q, want the turn to end: %t", got.Control, ends)
			}
		})
	}
}

// TestBatchLimit: 25 calls are made, and each further one is an error of its own.
func TestBatchLimit(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, standard.Batch())
	var seen []plugin.NestedCall
	got, err := builtintest.Call(t, s, nested(&seen), "batch", `{"tool_calls":[`+strings.Repeat(`{"tool":"a"},`, 26)+`{"tool":"a"}]}`)
	if n := strings.Count(got.Text, "a batch makes at most 25 calls"); err != nil || len(seen) != 25 || n != 2 {
		t.Errorf("27 calls: got %d made, %d refused, %v, want 25 and 2", len(seen), n, err)
	}
}

// TestBatchEndsWithItsCall: an error of the worker ends the batch, and is no result of it.
func TestBatchEndsWithItsCall(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, standard.Batch())
	var seen []plugin.NestedCall
	if _, err := builtintest.Call(t, s, nested(&seen), "batch", `{"tool_calls":[{"tool":"a"},{"tool":"breaks"}]}`); err == nil || err.Error() != "the worker stops" {
		t.Errorf("got %v, want the error of the call", err)
	}
}
