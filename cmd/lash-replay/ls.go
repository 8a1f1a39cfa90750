package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/api"
)

type lsCmd struct {
	File   string            `arg:"" optional:"" help:"Archive file, when no source is given."`
	Label  map[string]string `placeholder:"KEY=VALUE" help:"Sessions with a label; KEY= for any value. Repeatable."`
	Status string            `enum:",open,running,asking,closed,erased,erasing,opening,empty,unreadable" default:"" placeholder:"STATUS" help:"Sessions with this status: open, running, asking, closed, erased, erasing, opening, empty or unreadable."`
	JSON   bool              `name:"json" help:"Print a JSON array of objects."`
}

// Statuses of sessions without a state.
const (
	statusEmpty      projector.Status = "empty"
	statusUnreadable projector.Status = "unreadable"
)

// Run lists every session. A session that cannot be read has the status "unreadable".
func (c *lsCmd) Run(ctx context.Context, e *env) error {
	e.source.defaults(c.File)
	if c.File != "" && e.source.named() {
		return fmt.Errorf("ls lists a whole source: leave out %s", c.File)
	}
	src, err := e.open(ctx, c.File)
	if err != nil {
		return err
	}
	defer src.Close()
	if src, err = e.cutAt(ctx, src); err != nil {
		return err
	}
	list, err := c.list(ctx, e, src)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(eventjson.Value{V: list})
	}
	return e.writeTable(list)
}

// list reads every session.
func (c *lsCmd) list(ctx context.Context, e *env, src source) ([]api.SessionSummary, error) {
	ids, err := src.Sessions(ctx)
	if err == nil {
		ids, err = withErased(ctx, src, ids)
	}
	if err != nil {
		return nil, err
	}
	list := make([]api.SessionSummary, 0, len(ids))
	for _, id := range ids {
		one, err := summaryOf(ctx, src, id)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			one = api.SessionSummary{ID: id, Status: statusUnreadable}
			e.Printf("session %s cannot be read: %v", id, err)
		}
		if c.selects(&one) {
			list = append(list, one)
		}
	}
	return list, nil
}

func (c *lsCmd) selects(s *api.SessionSummary) bool {
	status := c.Status == "" || c.Status == string(s.Status) || c.Status == "running" && s.Running != "" || c.Status == "asking" && s.Approvals > 0
	return status && index.HasLabels(s.Labels, c.Label)
}

// summaryOf is a session by its row of the directory, or by its history where no current row exists.
func summaryOf(ctx context.Context, src source, id events.SessionID) (api.SessionSummary, error) {
	row, err := src.Row(ctx, id)
	if err == nil && row == nil {
		var s *projector.State
		if s, err = src.State(ctx, id); err == nil {
			made := follow.RowOf(s)
			row = &made
		}
	}
	if errors.As(err, new(*events.ErasedError)) {
		t, err := src.Tombstone(ctx, id)
		return api.SessionSummary{ID: id, Seq: t.Last, Status: projector.StatusErased, UpdatedAt: t.At}, err
	}
	if err != nil {
		return api.SessionSummary{}, err
	}
	return api.SessionSummary{
		ID: row.Session, Seq: row.Seq, Status: cmp.Or(row.Status, statusEmpty), Parent: row.Parent, Labels: row.Labels, Owner: row.Owner, Turns: row.Turns,
		Running: row.Running, Queued: row.Queued, Tasks: row.Tasks, Approvals: row.Asks, CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}, nil
}

// writeTable prints the sessions.
func (e *env) writeTable(list []api.SessionSummary) error {
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SESSION\tSTATUS\tCOMMITS\tTURNS\tLABELS\tLAST")
	for i := range list {
		s := &list[i]
		status := string(s.Status)
		if s.Approvals > 0 {
			status += ", asking"
		} else if s.Running != "" {
			status += ", running"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\n", s.ID, status, s.Seq, s.Turns, eventjson.Value{V: s.Labels}, eventjson.Clock(s.UpdatedAt))
	}
	return w.Flush()
}

// writeJSON writes one value, indented.
func (e *env) writeJSON(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
