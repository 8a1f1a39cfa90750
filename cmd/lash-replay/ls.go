package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector/follow"
)

type lsCmd struct {
	File string `arg:"" optional:"" help:"Archive file, when no source is given."`
	JSON bool   `name:"json" help:"Print a JSON array of objects."`
}

// listed is a session in the output of ls.
type listed struct {
	Session   events.SessionID  `json:"session"`
	Status    string            `json:"status"` // "unreadable": see Error
	Events    int64             `json:"events"`
	Commits   events.Seq        `json:"commits"`
	Turns     int64             `json:"turns"`
	Running   events.TurnID     `json:"running,omitempty"`
	Queued    int               `json:"queued,omitempty"`
	Asks      int               `json:"asks,omitempty"` // calls that wait for an approval
	Parent    events.SessionID  `json:"parent,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt string            `json:"created_at,omitempty"`
	UpdatedAt string            `json:"updated_at,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// Run lists every session. A session that cannot be read has the status "unreadable".
func (c *lsCmd) Run(ctx context.Context, e *env) error {
	e.source.defaults(c.File)
	if c.File != "" && e.source.count() > 0 {
		return fmt.Errorf("ls lists a whole source: leave out %s", c.File)
	}
	src, err := e.open(ctx, c.File)
	if err != nil {
		return err
	}
	defer src.Close()
	ids, err := src.Sessions(ctx)
	if err != nil {
		return err
	}
	list := make([]listed, 0, len(ids))
	for _, id := range ids {
		l, err := listSession(ctx, src, id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			l = listed{Session: id, Status: "unreadable", Error: err.Error()}
			e.Printf("session %s cannot be read: %v", id, err)
		}
		list = append(list, l)
	}
	if c.JSON {
		return e.writeJSON(list)
	}
	return e.writeTable(list)
}

// listSession lists a session by its row of the directory, or by its history where no current row exists.
func listSession(ctx context.Context, src source, id events.SessionID) (listed, error) {
	row, err := src.Row(ctx, id)
	if err == nil && row != nil {
		return listedOf(row), nil
	}
	s, err := src.State(ctx, id)
	if err != nil {
		return listed{}, err
	}
	return listedOf(new(follow.RowOf(s))), nil
}

func listedOf(d *follow.Directory) listed {
	l := listed{
		Session: d.Session, Status: string(d.Status), Events: d.Events, Commits: d.Seq, Turns: d.Turns, Running: d.Running,
		Queued: d.Queued, Asks: d.Asks, Parent: d.Parent, Labels: d.Labels,
		CreatedAt: eventjson.Clock(d.CreatedAt), UpdatedAt: eventjson.Clock(d.UpdatedAt),
	}
	if l.Status == "" {
		l.Status = "empty"
	}
	return l
}

func (e *env) writeTable(list []listed) error {
	w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "SESSION\tSTATUS\tEVENTS\tCOMMITS\tTURNS\tLAST")
	for i := range list {
		l := &list[i]
		status := l.Status
		switch {
		case l.Asks > 0:
			status += ", asking"
		case l.Running != "":
			status += ", running"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", l.Session, status, l.Events, l.Commits, l.Turns, l.UpdatedAt)
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
