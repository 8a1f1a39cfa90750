package soak

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
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// mcpSession is a session whose turns call tools of the servers of the Model Context Protocol.
type mcpSession struct {
	id    events.SessionID
	asked int   // turns
	ended int   // turns
	err   error // of the turn that did not end
}

// mcpTools are the tools that turns call, one after the other.
var mcpTools = []string{"once", "look"} //nolint:gochecknoglobals // a table

// runMCP runs turns of sessions until ctx ends, and waits for those that have started until limit ends.
func (l *load) runMCP(ctx, limit context.Context) {
	var all sync.WaitGroup
	for n := range l.o.MCP {
		s := &mcpSession{id: events.SessionID(fmt.Sprintf("%s%d", mcpPrefix, n))}
		l.mcp = append(l.mcp, s)
		all.Go(func() {
			for s.err = l.create(limit, s.id); s.err == nil && ctx.Err() == nil; {
				id := events.TurnID(fmt.Sprintf("t%d", s.asked))
				req := api.Ask(fmt.Sprintf("%s %s/%s", mcpTools[s.asked%len(mcpTools)], s.id, id))
				req.ID = id
				s.asked++
				if s.err = l.until(limit, func() error {
					_, err := l.host.Run(limit, s.id, req)
					return err
				}); s.err == nil {
					s.ended++
					l.turns.Add(1)
				}
			}
		})
	}
	all.Wait()
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
		found, err := s.audit(ctx, b, runs, r)
		if err != nil {
			return err
		}
		r.add(s.id, &found)
		if bad := r.bad(s.id); bad != nil {
			if bad.History, err = saveHistory(ctx, b, l.o.Store, s.id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *mcpSession) audit(ctx context.Context, b *bus.Bus, runs map[string]int, r *Report) (found findings, err error) {
	v, results := projector.NewVerifier(s.id), 0
	broken := []error{s.err}
	for e, err := range b.Log().Read(ctx, s.id, 1) {
		if err != nil {
			return found, fmt.Errorf("read session %s: %w", s.id, err)
		}
		violations, err := follow.Verify(ctx, b, v, e)
		if err != nil {
			return found, fmt.Errorf("verify session %s: %w", s.id, err)
		}
		for _, violation := range violations {
			broken = append(broken, fmt.Errorf("%+v", violation))
		}
		for i := range e.Commit.Events {
			ev := &e.Commit.Events[i]
			switch p := ev.Payload.(type) {
			case *events.ToolReturned:
				results++
				err = s.result(ev.Turn, p.Results[0].Outcome, runs, &found, r)
			case *events.ToolLost:
				results++
				err = s.result(ev.Turn, events.OutcomeLost, runs, &found, r)
			}
			broken = append(broken, err)
		}
	}
	if results != s.asked {
		broken = append(broken, fmt.Errorf("%d turns have %d results", s.asked, results))
	}
	found.lost = errors.Join(broken...)
	return found, nil
}

// result judges a result by the number of runs.
func (s *mcpSession) result(id events.TurnID, outcome events.Outcome, runs map[string]int, found *findings, r *Report) error {
	var n int
	_, _ = fmt.Sscanf(string(id), "t%d", &n) // our own ids
	tool := mcpTools[n%len(mcpTools)]
	ran := runs[fmt.Sprintf("%s %s/%s", tool, s.id, id)]
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
