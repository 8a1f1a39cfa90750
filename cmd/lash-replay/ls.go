package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/transcript"
)

type lsCmd struct {
	File   string            `arg:"" optional:"" help:"Archive file, when no source is given."`
	Label  map[string]string `placeholder:"KEY=VALUE" help:"Sessions with a label; KEY= for any value. Repeatable."`
	Status string            `placeholder:"STATUS" help:"Sessions with this status: open, running, asking, closed, erased, erasing, opening, empty or unreadable."`
	Model  string            `placeholder:"NAME" help:"Sessions whose configuration names this model."`
	Since  point.Point       `placeholder:"TIME" help:"Sessions that moved at or after a time, or a duration such as 24h ago."`
	Limit  int               `placeholder:"N" help:"The N sessions that moved last, the newest first. Defaults to all, by id."`
	pricesFlag
	JSON bool `name:"json" help:"Print a JSON array of objects."`
}

// Help is shown by --help.
func (*lsCmd) Help() string {
	return `Model, tokens, cost and the beginning of the last reply come from the index that nodes keep, which is up to five seconds behind; --json has
more. With --prices there are costs.`
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
	Owner     string            `json:"owner,omitempty"`
	Place     string            `json:"place,omitempty"` // hot or cold
	Model     string            `json:"model,omitempty"`
	Tokens    *eventjson.Value  `json:"usage,omitempty"` // of all calls, those of children included
	Cost      micros            `json:"cost_micro_usd,omitzero"`
	LastText  string            `json:"last_text,omitempty"` // the beginning of the last reply
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt string            `json:"created_at,omitempty"`
	UpdatedAt string            `json:"updated_at,omitempty"`
	Erased    *tombstone        `json:"erased,omitempty"` // the tombstone
	Error     string            `json:"error,omitempty"`
	total     int64
	updated   events.Millis
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
	if src, err = e.cutAt(ctx, src); err != nil {
		return err
	}
	filter, err := c.filter(e)
	if err != nil {
		return err
	}
	list, err := filter.list(ctx, e, src)
	if err != nil {
		return err
	}
	if c.JSON {
		return e.writeJSON(list)
	}
	return e.paged(func() error { return e.writeTable(list) })
}

// listSession lists a session by its row of the directory, or by its history where no current row exists.
func listSession(ctx context.Context, src source, id events.SessionID) (listed, error) {
	row, err := src.Row(ctx, id)
	if err == nil && row != nil {
		return listedOf(row), nil
	}
	if err == nil {
		var s *projector.State
		if s, err = src.State(ctx, id); err == nil {
			return listedState(s), nil
		}
	}
	if !errors.As(err, new(*events.ErasedError)) {
		return listed{}, err
	}
	t, err := src.Tombstone(ctx, id)
	g := tombstoneOf(id, t)
	return listed{Session: id, Status: statusErased, Commits: t.Last, UpdatedAt: g.At, updated: t.At, Erased: g}, err
}

// statusErased is the status of erased sessions.
const statusErased = string(projector.StatusErased)

// listedState is the session of a state, which does not say where it is stored.
func listedState(s *projector.State) listed {
	d := follow.RowOf(s)
	d.Place = ""
	return listedOf(&d)
}

func listedOf(d *follow.Directory) listed {
	l := listed{
		Session: d.Session, Status: string(d.Status), Events: d.Events, Commits: d.Seq, Turns: d.Turns, Running: d.Running,
		Queued: d.Queued, Asks: d.Asks, Parent: d.Parent, Labels: d.Labels,
		Owner: d.Owner, Place: d.Place, CreatedAt: eventjson.Clock(d.CreatedAt), UpdatedAt: eventjson.Clock(d.UpdatedAt), updated: d.UpdatedAt,
	}
	if l.Status == "" {
		l.Status = "empty"
	}
	return l
}

// writeTable prints the sessions. A column without any value is left out, except the first six.
func (e *env) writeTable(list []listed) error {
	rows := [][]string{{"SESSION", "STATUS", "EVENTS", "COMMITS", "TURNS", "LAST", "MODEL", "TOKENS", "COST", "LABELS", "LAST WORDS", "ERASED"}}
	for i := range list {
		l := &list[i]
		tokens, erased := "", ""
		if l.Erased != nil {
			erased = l.Erased.why()
		}
		if l.total > 0 {
			tokens = fmt.Sprint(l.total)
		}
		row := []string{
			string(l.Session), l.state(), fmt.Sprint(l.Events), fmt.Sprint(l.Commits), fmt.Sprint(l.Turns), l.UpdatedAt,
			l.Model, tokens, l.Cost.String(), labelText(l.Labels), firstWords(l.LastText), erased,
		}
		for j := range row {
			row[j] = transcript.VisibleLine(row[j])
		}
		rows = append(rows, row)
	}
	const fixed = 6
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		shown := row[:fixed:fixed]
		for j := fixed; j < len(row); j++ {
			if slices.ContainsFunc(rows[1:], func(r []string) bool { return r[j] != "" }) {
				shown = append(shown, row[j])
			}
		}
		_, _ = fmt.Fprintln(w, strings.Join(shown, "\t")) // each row has all cells: a shorter one would end the columns for the rows below
	}
	_ = w.Flush() // a builder takes everything
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(e.Out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// state is the status with what the session does.
func (l *listed) state() string {
	switch {
	case l.Asks > 0:
		return l.Status + ", asking"
	case l.Running != "":
		return l.Status + ", running"
	}
	return l.Status
}

// wordsBytes is how much of the last reply the table shows.
const wordsBytes = 48

func firstWords(text string) string { return events.Clip(text, wordsBytes, "...") }

// writeJSON writes one value, indented.
func (e *env) writeJSON(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
