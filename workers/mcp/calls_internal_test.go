package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

func newServerRun(t *testing.T) *serverRun {
	t.Helper()
	run := &serverRun{}
	run.ctx, run.end = context.WithCancelCause(t.Context())
	t.Cleanup(func() { run.end(nil) })
	return run
}

// TestOwnerOfQuestions has a call end, and then the server ask while another call runs: the question is that call's unless
// the server may still work on the first one, of another session. After such a question the server is started again once no call runs.
func TestOwnerOfQuestions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ended     error
		cancelled bool
		session   events.SessionID // of the first call; the second one is of s2
		asks      bool             // the people of the second call
	}{
		"answered":           {nil, false, "s1", true},
		"refused":            {&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, false, "s1", true},
		"lost_answer":        {&jsonrpc.Error{Code: codeUnanswered}, false, "s1", false},
		"cancelled":          {errors.New("it was cancelled"), true, "s1", false},
		"lost_answer_of_own": {&jsonrpc.Error{Code: codeUnanswered}, false, "s2", true},
		"cancelled_own":      {errors.New("it was cancelled"), true, "s2", true},
	} {
		var c calls
		run := newServerRun(t)
		c.begin(run)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.do(ctx, run, &activeCall{session: tc.session}, func(context.Context, string) (plugin.Result, error) {
			if tc.cancelled {
				cancel()
			}
			return plugin.Result{}, tc.ended
		})
		cancel()
		if !errors.Is(err, tc.ended) {
			t.Errorf("%s: got %v, want %v", name, err, tc.ended)
		}
		_, err = c.do(t.Context(), run, &activeCall{session: "s2"}, func(context.Context, string) (plugin.Result, error) {
			_, _ = c.do(t.Context(), run, &activeCall{session: "s3"}, func(context.Context, string) (plugin.Result, error) {
				if call, err := c.owner(); call != nil || !errors.Is(err, errSessions) {
					t.Errorf("%s: a question while calls of two sessions run has an owner", name)
				}
				return plugin.Result{}, nil
			})
			second := &activeCall{session: "s2"}
			_, _ = c.do(t.Context(), run, second, func(context.Context, string) (plugin.Result, error) {
				call, _ := c.owner()
				if (call == second) != tc.asks {
					t.Errorf("%s: a question while two calls of a session run: got %+v, want the second call: %t", name, call, tc.asks)
				}
				if !tc.asks {
					return plugin.Result{}, nil
				}
				c.answered(second)
				if next, _ := c.owner(); next != second {
					t.Errorf("%s: after the answer: got %+v, want the second call again", name, next)
				}
				if next, _ := c.owner(); next == second || next == nil {
					t.Errorf("%s: the next question: got %+v, want the first call, which has none", name, next)
				}
				return plugin.Result{}, nil
			})
			if call, err := c.owner(); (call != nil) != tc.asks || !tc.asks && !errors.Is(err, errAbandoned) {
				t.Errorf("%s: a question has an owner: got %v, %v, want %t", name, call, err, tc.asks)
			}
			if run.ctx.Err() != nil {
				t.Errorf("%s: the server is started again during a call", name)
			}
			return plugin.Result{}, nil
		})
		if err != nil {
			t.Errorf("%s: second call: %v", name, err)
		}
		if renewed := errors.Is(context.Cause(run.ctx), errRenew); renewed == tc.asks {
			t.Errorf("%s: the server is started again: got %t", name, renewed)
		}
		_, err = c.do(t.Context(), run, &activeCall{session: "s2"}, func(context.Context, string) (plugin.Result, error) { return plugin.Result{}, nil })
		if errors.Is(err, errReplaced) == tc.asks {
			t.Errorf("%s: a call after that: got %v", name, err)
		}
	}
}
