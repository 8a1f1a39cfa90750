package mcp

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
)

func newTestRun(t *testing.T) *run {
	t.Helper()
	s := &Source{log: zap.NewNop(), warned: rate.NewLimiter(1, 1), name: "srv"}
	s.pace = newPace(s.busy)
	r := newRun(t.Context(), s)
	r.server = &Server{}
	t.Cleanup(func() { r.end(nil) })
	return r
}

func attemptIn(session events.SessionID) *attempt {
	return &attempt{caller: plugin.Call{Session: session}}
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
		run := newTestRun(t)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := run.do(ctx, attemptIn(tc.session), func(context.Context, string) (plugin.Result, error) {
			if tc.cancelled {
				cancel()
			}
			return plugin.Result{}, tc.ended
		})
		cancel()
		runtest.WantError(t, name, err, tc.ended)
		_, err = run.do(t.Context(), attemptIn("s2"), func(context.Context, string) (plugin.Result, error) {
			_, _ = run.do(t.Context(), attemptIn("s3"), func(context.Context, string) (plugin.Result, error) {
				if call, err := run.owner(); call != nil || !errors.Is(err, errSessions) {
					t.Errorf("%s: a question while calls of two sessions run has an owner", name)
				}
				return plugin.Result{}, nil
			})
			second := attemptIn("s2")
			_, _ = run.do(t.Context(), second, func(context.Context, string) (plugin.Result, error) {
				call, _ := run.owner()
				if (call == second) != tc.asks {
					t.Errorf("%s: a question while two calls of a session run: got %+v, want the second call: %t", name, call, tc.asks)
				}
				if !tc.asks {
					return plugin.Result{}, nil
				}
				run.answered(second)
				if next, _ := run.owner(); next != second {
					t.Errorf("%s: after the answer: got %+v, want the second call again", name, next)
				}
				if next, _ := run.owner(); next == second || next == nil {
					t.Errorf("%s: the next question: got %+v, want the first call, which has none", name, next)
				}
				return plugin.Result{}, nil
			})
			if call, err := run.owner(); (call != nil) != tc.asks || !tc.asks && !errors.Is(err, errAbandoned) {
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
		_, err = run.do(t.Context(), attemptIn("s2"), func(context.Context, string) (plugin.Result, error) { return plugin.Result{}, nil })
		if errors.Is(err, errReplaced) == tc.asks {
			t.Errorf("%s: a call after that: got %v", name, err)
		}
	}
}

// TestUnreadableLineIsNoAnswer: the library's error of a line that it cannot read has the type of a server's refusal. The calls that then end
// must not take it for one: they may have run.
func TestUnreadableLineIsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, output := range map[string]string{"line": `{"jsonrpc":"2.0","id":{},"method":"x"}` + "\n", "end": ""} {
		run := newTestRun(t)
		run.pipe = newPipe(&run.answers, nil)
		go run.pipe.listen(strings.NewReader(output)) // ends with the output
		_, err := run.pipe.Read(t.Context())
		if _, answered := errors.AsType[*jsonrpc.Error](err); err == nil || answered || run.intact() || errors.Is(err, io.EOF) != (output == "") {
			t.Errorf("%s: got %v, want an error that is no answer, and a broken connection", name, err)
		}
		if f := run.judge(&attempt{}, err); f != nil || run.ctx.Err() == nil {
			t.Errorf("%s: got the failure %+v, want none, and the end of the run", name, f)
		}
	}
}

// TestRefusalsThatEndARun: after a refusal that may be about the session of a call, or its token, the next call has others, whatever it says.
func TestRefusalsThatEndARun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		over refusal
		ends bool
	}{
		"400":             {refusal{status: 400, session: "s"}, true},
		"400_of_a_page":   {refusal{status: 400, session: "s", body: "<html>Bad Request</html>"}, true},
		"410":             {refusal{status: 410, session: "s", body: "Gone"}, true},
		"400_of_the_call": {refusal{status: 400, session: "s", body: `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"x is missing"}}`}, false},
		"403":             {refusal{status: 403, body: "expired"}, true},
		"413":             {refusal{status: 413, session: "s"}, false},
	} {
		run := newTestRun(t)
		a := &attempt{}
		a.refused.Store(&c.over)
		f := run.judge(a, errors.New("refused"))
		if f == nil || f.Safe || run.ctx.Err() != nil != c.ends {
			t.Errorf("%s: got %+v, and the end %v, want a failure, and an end: %t", name, f, run.ctx.Err(), c.ends)
		}
	}
}
