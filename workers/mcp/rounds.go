package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/session/plugin/wire"
)

// maxRounds limits how often a server asks by the results of one call.
const maxRounds = 10

// busyPause is the time before a request is repeated whose result asks nothing: the server is busy.
const busyPause = time.Second

// rounds performs a request until its result asks nothing: a server may ask people by a result, and gets the answers with the same
// request. Errors: those of do; a [*jsonrpc.Error] for what cannot be answered.
func rounds(ctx context.Context, do func(answers mcp.InputResponseMap, state string) (asks mcp.InputRequestMap, next string, err error)) error {
	var answers mcp.InputResponseMap
	state := ""
	for range maxRounds {
		asks, next, err := do(answers, state)
		if required := pagesOf(err); required != nil {
			if opened, failed := answersOf(ctx, required); failed != nil || !accepted(opened) {
				return cmp.Or(failed, err)
			}
			continue
		}
		if err != nil || asks == nil {
			return err
		}
		if answers, err = answersOf(ctx, asks); err != nil {
			return err
		}
		state = next
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the server asks again after %d answers", maxRounds)}
}

// pagesOf are the pages that people have to open before a request, as its refusal says; nil: it does not say so.
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
	case call == nil || len(asks) > wire.MaxCallbacks:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("the server asks %d questions at once, limit is %d", len(asks), wire.MaxCallbacks)}
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

// kept receives a result that the library would keep as long as the session, for the time that the server says, and longer.
type kept struct{ result mcp.Result }

type keptKey struct{}

// fresh performs a request, whose result the library does not keep.
func fresh[R mcp.Result](ctx context.Context, do func(ctx context.Context) (R, error)) (R, error) {
	k := &kept{}
	result, err := do(context.WithValue(ctx, keptKey{}, k))
	if got, ok := k.result.(R); ok && err == nil {
		return got, nil
	}
	return result, err
}

// uncached gives the library an empty result in place of one that [fresh] receives.
func uncached(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, r)
		k, ok := ctx.Value(keptKey{}).(*kept)
		if !ok || err != nil {
			return result, err
		}
		k.result = result
		return reflect.New(reflect.TypeOf(result).Elem()).Interface().(mcp.Result), nil //nolint:forcetypeassert // the type of the result
	}
}
