package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// again repeats a read until the servers answer or ctx ends.
func again[Out any](ctx context.Context, read func(context.Context) (Out, error)) (out Out, err error) {
	err = repeat(ctx, isUnread, func() (err error) {
		out, err = read(ctx)
		return err
	})
	return out, err
}

// isUnread reports whether the servers did not answer.
func isUnread(err error) bool { return errors.Is(err, events.ErrOutcomeUnknown) }

// Run implements [api.Service].
func (c *Client) Run(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.TurnResult, error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	return again(ctx, func(ctx context.Context) (api.TurnResult, error) { return c.watcher.Run(ctx, c, id, req) })
}

// Await implements [api.Service].
func (c *Client) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	if _, err := c.State(ctx, id); err != nil { // waits while the servers do not answer
		return api.TurnResult{}, err
	}
	return again(ctx, func(ctx context.Context) (api.TurnResult, error) { return c.watcher.Await(ctx, id, turn) })
}

// AssembledTurn implements [api.Service].
func (c *Client) AssembledTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	return again(ctx, func(ctx context.Context) (api.AssembledTurn, error) { return c.reader.AssembledTurn(ctx, id, turn) })
}

// StartTurnStream implements [api.Service].
func (c *Client) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	if _, err := c.State(ctx, id); err != nil { // waits while the servers do not answer
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	return c.watcher.StartTurnStream(ctx, c, id, req)
}

// Approvals implements [api.Service].
func (c *Client) Approvals(ctx context.Context, id events.SessionID) ([]api.PendingApproval, error) {
	return again(ctx, func(ctx context.Context) ([]api.PendingApproval, error) { return c.reader.Approvals(ctx, id) })
}

// ToolOutput implements [api.Service].
func (c *Client) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	return again(ctx, func(ctx context.Context) (string, error) { return c.reader.ToolOutput(ctx, id, call) })
}

// ToolState implements [api.Service]. See [Client.ToolCatalog].
func (c *Client) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	if stored := c.storedCatalog(ctx, id); stored != nil {
		return api.ToolState{Generation: stored.Generation, Tools: stored.Tools}, nil
	}
	state, err := c.Requests.ToolState(ctx, id)
	if tools, failed := blob.Contracts(ctx, c.b, state.Tools, nil); failed == nil { // who may not read bodies has the others
		state.Tools = tools
	}
	return state, err
}

// ToolCatalog implements [api.Service]. While no node serves, a client that reads the store by itself lists the tools that a projector
// wrote last: those of a turn, or of a change since.
func (c *Client) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	if stored := c.storedCatalog(ctx, id); stored != nil {
		return plugin.ListTools(stored.Tools), nil
	}
	list, err := c.Requests.ToolCatalog(ctx, id)
	if !errors.Is(err, events.ErrTooLarge) {
		return list, err
	}
	state, err := c.ToolState(ctx, id) // one answer does not hold their contracts
	return plugin.ListTools(state.Tools), err
}

// servedWithin is how long the servers may take to say that no node serves: their answer may be lost.
const servedWithin = time.Second

// storedCatalog is a session's catalogue as a projector wrote it; nil where a node serves, and where there is none.
func (c *Client) storedCatalog(ctx context.Context, id events.SessionID) *projector.Catalog {
	asking, end := context.WithTimeout(ctx, servedWithin)
	err := c.b.Serves(asking, string(operation.ToolState.Name))
	end()
	if !errors.Is(err, bus.ErrNoResponder) {
		return nil
	}
	stored, err := follow.StoredCatalog(ctx, c.b, id)
	if err == nil {
		stored.Tools, err = blob.Contracts(ctx, c.b, stored.Tools, nil)
	}
	if err != nil || stored.IsZero() {
		return nil
	}
	return &stored
}

// Tasks implements [api.Service].
func (c *Client) Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	return again(ctx, func(ctx context.Context) ([]projector.Task, error) { return c.reader.Tasks(ctx, id) })
}

// Task implements [api.Service].
func (c *Client) Task(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return again(ctx, func(ctx context.Context) (projector.Task, error) { return c.reader.Task(ctx, id, name) })
}

// State implements [api.Service].
func (c *Client) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return again(ctx, func(ctx context.Context) (*projector.State, error) { return c.reader.State(ctx, id) })
}

// StateAt implements [api.Service].
func (c *Client) StateAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error) {
	return again(ctx, func(ctx context.Context) (*projector.State, error) { return c.reader.StateAt(ctx, id, seq) })
}

// View implements [api.Service].
func (c *Client) View(ctx context.Context, id events.SessionID) (projector.ReadView, error) {
	return again(ctx, func(ctx context.Context) (projector.ReadView, error) { return c.reader.View(ctx, id) })
}

// Sessions implements [api.Finder].
func (c *Client) Sessions(ctx context.Context, q api.SessionQuery) (api.SessionPage, error) {
	return again(ctx, func(ctx context.Context) (api.SessionPage, error) { return c.reader.Sessions(ctx, q) })
}

// Turns implements [api.Finder].
func (c *Client) Turns(ctx context.Context, id events.SessionID, p api.Page) (api.TurnPage, error) {
	return again(ctx, func(ctx context.Context) (api.TurnPage, error) { return c.reader.Turns(ctx, id, p) })
}

// PendingApprovals implements [api.Finder].
func (c *Client) PendingApprovals(ctx context.Context, p api.Page) (api.ApprovalPage, error) {
	return again(ctx, func(ctx context.Context) (api.ApprovalPage, error) { return c.reader.PendingApprovals(ctx, p) })
}

// Search implements [api.Finder].
func (c *Client) Search(ctx context.Context, q api.SearchQuery) (api.SearchPage, error) {
	return again(ctx, func(ctx context.Context) (api.SearchPage, error) { return c.reader.Search(ctx, q) })
}

// ViewAt implements [api.Finder].
func (c *Client) ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error) {
	return again(ctx, func(ctx context.Context) (projector.ReadView, error) { return c.reader.ViewAt(ctx, id, seq) })
}

// FindBlobs implements [api.Bodies].
func (c *Client) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	return again(ctx, func(ctx context.Context) ([]events.BlobRef, error) { return c.reader.FindBlobs(ctx, id, digests...) })
}

// ReadBlob implements [api.Bodies].
func (c *Client) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	return again(ctx, func(ctx context.Context) ([]byte, error) { return c.reader.ReadBlob(ctx, id, digest) })
}

// Observe implements [api.Service]. While the servers do not answer it waits, also before its first item.
func (c *Client) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return func(yield func(api.Observed, error) bool) {
		err := repeat(ctx, isUnread, func() error {
			for seen, err := range c.watcher.Observe(ctx, id, cursor) {
				if isUnread(err) && ctx.Err() == nil {
					return err
				}
				if seen.Commit != nil {
					cursor = seen.Seq
				}
				if !yield(seen, err) {
					break
				}
			}
			return nil
		})
		if err != nil {
			yield(api.Observed{}, context.Cause(ctx))
		}
	}
}
