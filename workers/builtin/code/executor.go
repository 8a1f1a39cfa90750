package code

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code/internal/sandbox"
)

// executor runs programs. Its calls are never concurrent, see [plugin.CodeExecutor].
type executor struct {
	limits sandbox.Limits
	state  []byte // of the next program
	dirty  bool
}

func (e *executor) Restore(_ context.Context, _ plugin.ProtocolSession, state []byte) error {
	e.state, e.dirty = state, false
	return nil
}

func (e *executor) Dirty() bool { return e.dirty }

func (e *executor) Snapshot(context.Context, plugin.ProtocolSession) ([]byte, error) {
	e.dirty = false
	return e.state, nil
}

func (e *executor) Execute(ctx context.Context, in plugin.ExecContext, req plugin.ExecRequest) (plugin.ExecResponse, error) {
	if !slices.Contains([]string{"", "starlark", "python", "py", "lash"}, req.Language) {
		return plugin.ExecResponse{Error: fmt.Sprintf("there is no %q here; write starlark", req.Language)}, nil
	}
	options, err := ParseOptions(in.Options)
	if err != nil {
		return plugin.ExecResponse{}, err
	}
	if len(e.state) == 0 {
		e.state = seedOf(in)
	}
	limits := e.limits
	var tools []string
	for i := range in.Tools {
		tools = append(tools, in.Tools[i].Name)
	}
	limits.Timeout = cmp.Or(in.Environment.CodeTime, limits.Timeout)
	limits.MemoryBytes = cmp.Or(in.Environment.Memory, limits.MemoryBytes)
	resp, err := sandbox.Run(ctx, limits, sandbox.Request{
		Now: in.Host.Now(), Code: req.Code, Session: string(in.Session), Tools: tools, State: e.state, AcceptFinish: req.AcceptFinish, FinishSchema: options.FinishSchema,
	}, caller{in})
	if err != nil {
		return plugin.ExecResponse{}, err
	}
	if resp.Dirty {
		e.state, e.dirty = resp.State, true
	}
	out := plugin.ExecResponse{
		Output: resp.Output, Truncated: resp.Truncated, Attachments: partsOf(resp.Shown), Calls: resp.Calls, Error: resp.Error,
		Finished: resp.Finished, Value: resp.Value,
	}
	if resp.Continue != nil {
		if out.Switch, err = continueAs(ctx, in, resp.Continue); err != nil {
			out.Switch, out.Error = nil, "continue_as: "+err.Error()
		}
	}
	return out, nil
}

// caller serves the calls of one program.
type caller struct{ in plugin.ExecContext }

func (c caller) Call(ctx context.Context, call sandbox.Call) (json.RawMessage, error) {
	r, err := c.in.Call(ctx, call.Ordinal, call.Tool, call.Args)
	if err != nil {
		return nil, stop(err)
	}
	value, err := valueOf(r)
	if err != nil || !call.Whole {
		return value, err
	}
	if !json.Valid(value) {
		if value, err = json.Marshal(string(value)); err != nil {
			return nil, err
		}
	}
	return json.Marshal(sandbox.Whole{Value: value, Attachments: attachmentsOf(r.Attachments)})
}

func (c caller) Attachments(ctx context.Context) (json.RawMessage, error) {
	parts, err := c.in.Attachments(ctx)
	if err != nil {
		return nil, stop(err)
	}
	return json.Marshal(attachmentsOf(parts))
}

func (c caller) Start(ctx context.Context, call sandbox.Call) (string, error) {
	id, err := c.in.Start(ctx, call.Ordinal, call.Tool, call.Args)
	if err != nil {
		return "", unlessFailure(err)
	}
	return id, nil
}

func (c caller) Await(ctx context.Context, id string) (json.RawMessage, error) {
	r, err := c.in.Await(ctx, id)
	if err != nil {
		return nil, unlessFailure(err)
	}
	return valueOf(r)
}

func (c caller) Message(text, kind string) { c.in.Message(text, kind) }

// attachmentsOf are parts in the form for programs, and partsOf is its inverse.
func attachmentsOf(parts []events.Part) []sandbox.Attachment {
	list := []sandbox.Attachment{}
	for _, p := range parts {
		list = append(list, sandbox.Attachment{MediaType: p.MediaType, Digest: p.Blob.Digest, Size: p.Blob.Size, URL: p.Text})
	}
	return list
}

func partsOf(list []sandbox.Attachment) (parts []events.Part) {
	for _, a := range list {
		parts = append(parts, events.Part{
			Kind: events.PartAttachment, MediaType: a.MediaType, Text: a.URL, Blob: events.BlobRef{Digest: a.Digest, Size: a.Size},
		})
	}
	return parts
}

// stop wraps an error that ends the run of the program.
func stop(err error) error { return fmt.Errorf("%w: %w", sandbox.ErrStop, err) }

// unlessFailure is stop for an error that is not a tool's failure.
func unlessFailure(err error) error {
	if _, failure := errors.AsType[*plugin.Failure](err); failure {
		return err
	}
	return stop(err)
}

// valueOf converts a result for the program: its text, or its failure.
func valueOf(r plugin.Result) (json.RawMessage, error) {
	if r.Outcome != events.OutcomeSuccess {
		return nil, errors.New(strings.TrimPrefix(r.Text, "[failed] "))
	}
	return json.RawMessage(r.Text), nil
}
