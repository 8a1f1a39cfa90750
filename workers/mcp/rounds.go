package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/delay"
)

// maxRounds limits how often a server asks by the results of one call, maxAsks how much it asks at once.
const (
	maxRounds = 10
	maxAsks   = 16
)

// busyPause is the time before a request is repeated whose result asks nothing: the server is busy.
const busyPause = time.Second

// rounds performs a call until its result asks nothing: a server may ask people by a result, or by a refusal, and gets the call again, with
// the answers. Errors: those of do; a [*jsonrpc.Error] for what cannot be answered.
func rounds(ctx context.Context, do func(answers mcp.InputResponseMap, state string) (*mcp.CallToolResult, error)) (r *mcp.CallToolResult, err error) {
	var answers mcp.InputResponseMap
	state := ""
	for range maxRounds {
		r, err = do(answers, state)
		if required := pagesOf(err); required != nil {
			if opened, failed := answersOf(ctx, required); failed != nil || !accepted(opened) {
				return nil, cmp.Or(failed, err)
			}
			continue
		}
		if err != nil || r.InputRequests == nil {
			return r, err
		}
		if answers, err = answersOf(ctx, r.InputRequests); err != nil {
			return nil, err
		}
		state = r.RequestState
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the server asks again after %d answers", maxRounds)}
}

// pagesOf are the pages that people have to open before a call, as its refusal says; nil: it does not say so.
func pagesOf(err error) mcp.InputRequestMap {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refused.Code != mcp.CodeURLElicitationRequired {
		return nil
	}
	var data struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(refused.Data, &data) != nil || len(data.Elicitations) == 0 {
		return nil
	}
	pages := make(mcp.InputRequestMap)
	for i, p := range data.Elicitations {
		pages[fmt.Sprintf("%08d", i)] = p // in their order
	}
	return pages
}

// accepted reports whether people granted all that was asked.
func accepted(answers mcp.InputResponseMap) bool {
	for _, answer := range answers {
		if a, ok := answer.(*mcp.ElicitResult); !ok || a.Action != accept {
			return false
		}
	}
	return true
}

// answersOf asks people what a result asks, one question after the other.
func answersOf(ctx context.Context, asks mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	call, _ := ctx.Value(activeCallKey{}).(*activeCall)
	switch {
	case call == nil || len(asks) > maxAsks:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the server asks %d questions at once, limit is %d", len(asks), maxAsks)}
	case len(asks) == 0 && !delay.Sleep(ctx, busyPause):
		return nil, context.Cause(ctx)
	}
	call.asks = true
	answers := make(mcp.InputResponseMap, len(asks))
	for _, id := range slices.Sorted(maps.Keys(asks)) {
		p, ok := asks[id].(*mcp.ElicitParams)
		if !ok {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server asks for completions or roots, which it cannot have"}
		}
		answer, err := call.elicit(ctx, p)
		if err != nil {
			return nil, err
		}
		answers[id] = answer
	}
	return answers, nil
}
