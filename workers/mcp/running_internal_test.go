package mcp

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestOwnerOfQuestions has a call end, and then the server ask while another call runs: the question is that call's unless
// the server may still work on the first one.
func TestOwnerOfQuestions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ended     error
		cancelled bool
		asks      bool // the people of the second call
	}{
		"answered":    {nil, false, true},
		"refused":     {&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams}, false, true},
		"lost_answer": {&jsonrpc.Error{Code: codeUnanswered}, false, false},
		"cancelled":   {errors.New("it was cancelled"), true, false},
	} {
		var c calls
		session := new(mcp.ClientSession)
		c.begin(session)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := c.do(ctx, t.Context(), session, nil, func(context.Context, string) (*wire.Outcome, error) {
			if tc.cancelled {
				cancel()
			}
			return nil, tc.ended
		})
		cancel()
		if !errors.Is(err, tc.ended) {
			t.Errorf("%s: got %v, want %v", name, err, tc.ended)
		}
		_, _ = c.do(t.Context(), t.Context(), session, nil, func(context.Context, string) (*wire.Outcome, error) {
			if got := c.owner(t.Context()) != nil; got != tc.asks {
				t.Errorf("%s: a question has an owner: got %t, want %t", name, got, tc.asks)
			}
			return nil, nil //nolint:nilnil // the outcome does not matter
		})
	}
}
