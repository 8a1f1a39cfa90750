package standard

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// batchTool is the name of the tool that makes several calls at once.
const batchTool = "batch"

// batchLimit is the number of calls of one batch. Each further call is an error of its own.
const batchLimit = 25

// Batch offers the tool batch in the sessions with this protocol. Its calls run like the model's own.
func Batch() plugin.Factory { return batch{} }

type batch struct{ factory }

func (batch) ID() string { return batchTool }

func (batch) Build(plugin.BuildContext) (plugin.Plugin, error) { return batchPlugin{}, nil }

type batchPlugin struct{}

func (batchPlugin) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{
		Name: batchTool, Effects: events.EffectsIdempotent, // its calls have their own policies
		Description: fmt.Sprintf("Makes up to %d tool calls at once. Calls that do not depend on each other run beside each other. "+
			"The results stand in the order of the calls. A batch cannot hold a batch.", batchLimit),
	}, runBatch)
	return nil
}

type batchArgs struct {
	Calls []batchCall `json:"tool_calls" jsonschema:"the calls to make"`
}

type batchCall struct {
	Tool       string         `json:"tool" jsonschema:"name of the tool"`
	Parameters map[string]any `json:"parameters,omitempty" jsonschema:"its arguments"`
}

// batchResult is the result of one of the calls.
type batchResult struct {
	Tool    string `json:"tool"`
	Success bool   `json:"success"`
	Result  string `json:"result,omitempty"`
	Error   string `json:"error,omitempty"`
}

func runBatch(ctx context.Context, call plugin.Call, in batchArgs) (plugin.Result, error) {
	results := make([]batchResult, len(in.Calls))
	var calls []plugin.NestedCall
	var at []int // positions of the calls among the results
	for i, c := range in.Calls {
		results[i].Tool = c.Tool
		switch {
		case i >= batchLimit:
			results[i].Error = fmt.Sprintf("a batch makes at most %d calls", batchLimit)
			continue
		case c.Tool == batchTool:
			results[i].Error = "a batch cannot hold a batch"
			continue
		}
		args, err := argsOf(c.Parameters)
		if err != nil {
			return plugin.Result{}, err
		}
		calls, at = append(calls, plugin.NestedCall{Tool: c.Tool, Args: args}), append(at, i)
	}
	out := plugin.Result{}
	for i, got := range call.Nested(ctx, 0, calls) {
		if got.Err != nil {
			return plugin.Result{}, got.Err
		}
		r := &results[at[i]]
		if r.Success = got.Outcome == events.OutcomeSuccess; !r.Success {
			r.Error = got.Text
			continue
		}
		r.Result = got.Text
		out.Attachments = append(out.Attachments, got.Attachments...)
		if got.Control != events.ControlNone && out.Control == events.ControlNone {
			// The first control ends the turn, as with the calls of a reply.
			out.Control, out.Switch, out.Text = got.Control, got.Switch, got.Text
		}
	}
	if out.Control != events.ControlNone {
		return out, nil
	}
	data, err := json.Marshal(results)
	out.Text = string(data)
	return out, err
}

// argsOf encodes equal arguments as equal text: a call that is repeated must be equal.
func argsOf(parameters map[string]any) (json.RawMessage, error) {
	if len(parameters) == 0 {
		return nil, nil
	}
	return json.Marshal(parameters)
}
