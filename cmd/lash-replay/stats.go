package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
)

type statsCmd struct {
	Sessions []string `arg:"" optional:"" help:"Sessions, by default all; or archive files when no source is given."`
	pricesFlag
	JSON bool `name:"json" help:"Print one JSON object."`
}

// totals counts the contents of histories.
type totals struct {
	Sessions   int64                       `json:"sessions"`
	Commits    int64                       `json:"commits"`
	Events     int64                       `json:"events"`
	Bytes      int64                       `json:"bytes"` // of commits, as encoded
	Blobs      int64                       `json:"blobs"` // bodies outside the log, each counted once a session
	BlobBytes  int64                       `json:"blob_bytes"`
	Kinds      map[events.Kind]int64       `json:"kinds"`
	Turns      int64                       `json:"turns"` // requested or scheduled
	TurnEnds   map[events.TurnEnd]int64    `json:"turn_ends"`
	ModelCalls int64                       `json:"model_calls"` // answered
	ModelFails int64                       `json:"model_failures"`
	Tokens     tokens                      `json:"tokens"`
	ToolCalls  map[string]map[string]int64 `json:"tool_calls"`  // by tool, then by outcome
	ToolMillis map[string]int64            `json:"tool_millis"` // of results, by tool
	Models     map[string]*modelTotals     `json:"models"`
	Answers    map[string]int64            `json:"approvals"` // asked, granted and refused
	HookRuns   int64                       `json:"hook_runs"`
	Cost       micros                      `json:"cost_micro_usd,omitzero"`
}

// modelTotals counts the replies of a model, partial ones included.
type modelTotals struct {
	Calls  int64  `json:"calls"`
	Millis int64  `json:"millis"`
	Tokens int64  `json:"tokens"`
	Cost   micros `json:"cost_micro_usd,omitzero"`
	usage  events.Usage
}

type tokens struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Reasoning  int64 `json:"reasoning"` // part of output
	Total      int64 `json:"total"`
}

// Run counts the contents of the sessions.
func (c *statsCmd) Run(ctx context.Context, e *env) error {
	prices, err := c.load()
	if err != nil {
		return err
	}
	e.quiet = c.JSON
	t := &totals{
		ToolMillis: make(map[string]int64), Models: make(map[string]*modelTotals), Answers: make(map[string]int64),
		Kinds: make(map[events.Kind]int64), TurnEnds: make(map[events.TurnEnd]int64), ToolCalls: make(map[string]map[string]int64),
	}
	err = e.each(ctx, c.Sessions, func(src source, id events.SessionID) error {
		return t.session(ctx, src, id)
	})
	if err != nil && !errors.Is(err, errLost) {
		return err
	}
	t.price(prices)
	if c.JSON {
		return errors.Join(e.writeJSON(t), err)
	}
	return errors.Join(e.paged(func() error {
		t.print(e)
		return nil
	}), err)
}

// price sets the costs.
func (t *totals) price(list pricing) {
	t.Cost.Known = list.known()
	for name, m := range t.Models {
		m.Tokens, m.Cost = m.usage.Total(), list.anywhere(name, m.usage)
		t.Cost.N, t.Cost.Known = t.Cost.N+m.Cost.N, t.Cost.Known && m.Cost.Known
	}
}

func (t *totals) session(ctx context.Context, src source, id events.SessionID) error {
	c := &counter{totals: t, blobs: make(map[string]bool), calls: make(map[replyKey][]countedCall), scheduled: make(map[events.TurnID]bool)}
	for entry, err := range src.Log().Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		t.Commits++
		t.Bytes += int64(len(entry.Data))
		for i := range entry.Commit.Events {
			c.event(&entry.Commit.Events[i])
		}
	}
	c.unanswered()
	t.Sessions++
	return nil
}

// counter counts the contents of one session.
type counter struct {
	*totals
	blobs     map[string]bool
	calls     map[replyKey][]countedCall
	scheduled map[events.TurnID]bool
}

type replyKey struct {
	turn      events.TurnID
	iteration int64
}

type countedCall struct {
	tool string
	done bool
}

func (c *counter) event(ev *events.Event) {
	c.Events++
	c.Kinds[ev.Kind]++
	for _, ref := range events.Refs(ev.Payload) {
		if !c.blobs[ref.Digest] {
			c.blobs[ref.Digest] = true
			c.Blobs, c.BlobBytes = c.Blobs+1, c.BlobBytes+ref.Size
		}
	}
	switch p := ev.Payload.(type) {
	case *events.TurnScheduled:
		c.Turns, c.scheduled[ev.Turn] = c.Turns+1, true
	case *events.TurnRequested:
		if !c.scheduled[ev.Turn] {
			c.Turns++
		}
	case *events.TurnCompleted:
		c.TurnEnds[p.End]++
	case *events.TurnDiverted:
		c.TurnEnds[p.End]++
	case *events.ModelReplied:
		c.replied(ev.Turn, p)
	case *events.ModelInterrupted:
		c.used(p.Usage)
		c.model(p.Model, p.Usage, p.Millis)
	case *events.HookRan:
		c.HookRuns++
	case *events.ToolApprovalAsked:
		c.Answers["asked"]++
	case *events.ToolApprovalGiven:
		c.Answers[map[bool]string{true: "granted", false: "refused"}[p.Granted]]++
	case *events.ModelFailed:
		c.ModelFails++
	case *events.ToolReturned:
		for i := range p.Results {
			c.result(replyKey{ev.Turn, p.Iteration}, p.Results[i].Call, p.Results[i].Outcome, p.Results[i].Millis)
		}
	case *events.ToolLost:
		for _, at := range p.Calls {
			c.result(replyKey{ev.Turn, p.Iteration}, at, events.OutcomeLost, 0)
		}
	}
}

func (c *counter) used(more events.Usage) {
	u := &c.Tokens
	u.Input, u.Output, u.Reasoning = u.Input+more.Input, u.Output+more.Output, u.Reasoning+more.Reasoning
	u.CacheRead, u.CacheWrite = u.CacheRead+more.CacheRead, u.CacheWrite+more.CacheWrite
	u.Total += more.Total()
}

func (c *counter) replied(turn events.TurnID, p *events.ModelReplied) {
	c.ModelCalls++
	c.used(p.Cost())
	c.model(p.Model, p.Cost(), p.Millis)
	key := replyKey{turn, p.Iteration}
	if _, twice := c.calls[key]; twice {
		return // only the first result counts
	}
	for i := range p.Parts {
		if p.Parts[i].Kind == events.PartToolCall {
			c.calls[key] = append(c.calls[key], countedCall{tool: p.Parts[i].Tool})
		}
	}
}

func (c *counter) model(name string, u events.Usage, millis int64) {
	m := c.Models[name]
	if m == nil {
		m = &modelTotals{}
		c.Models[name] = m
	}
	m.Calls, m.Millis, m.usage = m.Calls+1, m.Millis+millis, m.usage.Add(u)
}

func (c *counter) result(key replyKey, at int64, outcome events.Outcome, millis int64) {
	calls := c.calls[key]
	if at >= int64(len(calls)) || calls[at].done {
		return
	}
	calls[at].done = true
	c.ToolMillis[calls[at].tool] += millis
	if outcome == events.OutcomeSuccess {
		outcome = "success"
	}
	c.tool(calls[at].tool, string(outcome))
}

func (c *counter) tool(name, outcome string) {
	if c.ToolCalls[name] == nil {
		c.ToolCalls[name] = make(map[string]int64)
	}
	c.ToolCalls[name][outcome]++
}

func (c *counter) unanswered() {
	for _, calls := range c.calls {
		for _, call := range calls {
			if !call.done {
				c.tool(call.tool, "unanswered")
			}
		}
	}
}

func (t *totals) print(e *env) {
	e.printf("sessions     %d\ncommits      %d, %s\nevents       %d\n", t.Sessions, t.Commits, program.Number(t.Bytes, "byte"), t.Events)
	for _, kind := range slices.Sorted(maps.Keys(t.Kinds)) {
		e.printf("  %-28s %d\n", kind, t.Kinds[kind])
	}
	e.printf("blobs        %d, %s\nturns        %d\n", t.Blobs, program.Number(t.BlobBytes, "byte"), t.Turns)
	for _, end := range slices.Sorted(maps.Keys(t.TurnEnds)) {
		e.printf("  %-28s %d\n", end, t.TurnEnds[end])
	}
	e.printf("model calls  %d, %d failed\n", t.ModelCalls, t.ModelFails)
	u := t.Tokens
	e.printf("tokens       %d: %d in, %d out, cache %d read, %d written\n", u.Total, u.Input, u.Output, u.CacheRead, u.CacheWrite)
	if t.Cost.Known {
		e.printf("cost         %s\n", t.Cost)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		m := t.Models[name]
		e.printf("  %-28s %s\n", cmp.Or(quoted(name), "-"), joined(program.Number(m.Calls, "call"), program.Number(m.Tokens, "token"), duration(m.Millis), m.Cost.String()))
	}
	for _, what := range slices.Sorted(maps.Keys(t.Answers)) {
		e.printf("approvals    %s %d\n", what, t.Answers[what])
	}
	e.printf("hooks        %s\n", program.Number(t.HookRuns, "run"))
	e.printf("tool calls   by tool\n")
	for _, tool := range slices.Sorted(maps.Keys(t.ToolCalls)) {
		var list []string
		for _, outcome := range slices.Sorted(maps.Keys(t.ToolCalls[tool])) {
			list = append(list, fmt.Sprintf("%s %d", outcome, t.ToolCalls[tool][outcome]))
		}
		e.printf("  %-28s %s\n", quoted(tool), joined(strings.Join(list, ", "), duration(t.ToolMillis[tool])))
	}
}
