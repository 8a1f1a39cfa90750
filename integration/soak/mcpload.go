package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// asking is a session whose turns have texts of their own.
type asking struct {
	id    events.SessionID
	text  func(id events.SessionID, turn int) string
	asked int   // turns
	err   error // of the turn that did not end
}

// ask runs turns of sessions until ctx ends, and waits for those that have started until limit ends. Of turns that fail the audit says
// whether they may.
func (l *load) ask(ctx, limit context.Context, list []*asking) {
	var all sync.WaitGroup
	for _, s := range list {
		all.Go(func() {
			for s.err = l.create(limit, s.id); s.err == nil && ctx.Err() == nil; {
				req := api.Ask(s.text(s.id, s.asked))
				req.ID = events.TurnID(fmt.Sprintf("t%d", s.asked))
				s.asked++
				if s.err = l.until(limit, func() error {
					_, err := l.host.Run(limit, s.id, req)
					if errors.As(err, new(*api.TurnFailedError)) {
						return nil
					}
					return err
				}); s.err == nil {
					l.turns.Add(1)
				}
			}
		})
	}
	all.Wait()
}

// mcpTools are the tools of the servers that turns call, one after the other.
var mcpTools = []string{"once", "look"} //nolint:gochecknoglobals // a table

// mcpRun is the call of a turn: the tool, and its key.
func mcpRun(id events.SessionID, turn int) string {
	return fmt.Sprintf("%s %s/t%d", mcpTools[turn%len(mcpTools)], id, turn)
}

// create creates a session, or finds it.
func (l *load) create(limit context.Context, id events.SessionID) error {
	return l.until(limit, func() error {
		_, err := l.host.Create(limit, api.CreateRequest{ID: id})
		if errors.Is(err, api.ErrExists) {
			return nil
		}
		return err
	})
}

// until repeats what a client does, after errors too, until limit ends.
func (l *load) until(limit context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !delay.Sleep(limit, 200*time.Millisecond) {
			return err
		}
		l.errorsSurvived.Add(1)
	}
}

// auditMCP compares the histories of these sessions with the ledgers of the servers: a call that must not run twice ran once
// where it has a result, at most once where it is lost, and not at all where it is refused. A call that may repeat ran where
// it has a result, and is never lost.
func (l *load) auditMCP(ctx context.Context, b *bus.Bus, r *Report) error {
	names, err := filepath.Glob(filepath.Join(l.o.Store, "mcp-*.ledger"))
	if err != nil {
		return err
	}
	runs := make(map[string]int)
	for _, name := range names {
		data, err := os.ReadFile(name) //nolint:gosec // a file of the run
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			runs[strings.TrimSpace(line)]++
			r.MCPRuns++
		}
	}
	for _, s := range l.mcp {
		found, err := s.auditCalls(ctx, b, runs, r)
		if err != nil {
			return err
		}
		r.add(s.id, &found)
	}
	return nil
}

func (s *asking) auditCalls(ctx context.Context, b *bus.Bus, runs map[string]int, r *Report) (found findings, err error) {
	results, wrong := 0, []error{s.err}
	_, broken, err := readHistory(ctx, b, s.id, func(_ events.Seq, _ *events.Commit, e *events.Event) {
		switch p := e.Payload.(type) {
		case *events.ToolReturned:
			results++
			wrong = append(wrong, s.result(e.Turn, p.Results[0].Outcome, runs, &found, r))
		case *events.ToolLost:
			results++
			wrong = append(wrong, s.result(e.Turn, events.OutcomeLost, runs, &found, r))
		case *events.TurnCompleted:
			if p.End != events.EndFinished {
				wrong = append(wrong, fmt.Errorf("turn %s ended as %s %s", e.Turn, p.End, p.Issue.Message))
			}
		}
	})
	if results != s.asked {
		wrong = append(wrong, fmt.Errorf("%d turns have %d results", s.asked, results))
	}
	found.lost = errors.Join(append(broken, wrong...)...)
	return found, err
}

// result judges a result by the number of runs.
func (s *asking) result(id events.TurnID, outcome events.Outcome, runs map[string]int, found *findings, r *Report) error {
	var n int
	_, _ = fmt.Sscanf(string(id), "t%d", &n) // our own ids
	tool, ran := mcpTools[n%len(mcpTools)], runs[mcpRun(s.id, n)]
	r.MCPCalls++
	switch {
	case outcome == events.OutcomeLost && tool == "look":
		return fmt.Errorf("turn %s: a call that may repeat is lost", id)
	case outcome == events.OutcomeSuccess && ran == 0:
		return fmt.Errorf("turn %s: a call has a result, and did not run", id)
	case tool == "once" && ran > 1, tool == "once" && outcome == events.OutcomeFailure && ran > 0:
		found.doubled = append(found.doubled, fmt.Sprintf("turn %s: a call that must not run twice ran %d times, with the outcome %s", id, ran, outcome))
	case outcome == events.OutcomeLost:
		found.unknown++
	}
	return nil
}
