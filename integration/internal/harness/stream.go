package harness

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// streamer is a model whose calls are functions that emit their own deltas.
type streamer struct {
	mu    sync.Mutex
	calls []func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error)
}

func (*streamer) ID() string { return "streamer" }

func (s *streamer) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	s.mu.Lock()
	next := s.calls[0]
	s.calls = s.calls[1:]
	s.mu.Unlock()
	return next(ctx, sink)
}

// StartStreaming starts a worker whose model calls are these functions, which emit their own deltas.
func (b *System) StartStreaming(calls ...func(context.Context, func(llm.Delta)) (llm.Response, error)) {
	b.T.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: TurnRoles(),
		Bus:   b.Bus, Providers: map[string]llm.Provider{"streamer": &streamer{calls: calls}}, Provider: "streamer", Logger: zaptest.NewLogger(b.T),
		ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: time.Millisecond},
	})
	runtest.WantError(b.T, "new worker", err, nil)
	runtest.WantError(b.T, "start worker", w.Start(b.Ctx), nil)
	b.T.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		w.Stop(now)
	})
}

// StreamedReply is the response of a model call that streamed parts.
func StreamedReply(parts ...string) (llm.Response, error) {
	r := llm.Response{Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}}
	for _, p := range parts {
		r.Parts = append(r.Parts, Text(p))
	}
	return r, nil
}

// TextDelta is a delta of a text.
func TextDelta(s string) llm.Delta { return llm.Delta{Kind: events.PartText, Text: s} }

// CommitToTurn appends events of turn t1 without the checks of the host.
func (b *System) CommitToTurn(id events.SessionID, list ...events.Payload) {
	b.T.Helper()
	last := b.LastSeq(id)
	c := &events.Commit{ID: "turn", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem}}
	for _, p := range list {
		c.Events = append(c.Events, events.Of("t1", p))
	}
	_, err := b.Bus.Log().Append(b.Ctx, c, last)
	runtest.WantError(b.T, "append", err, nil)
}

// Observations collects observations until enough accepts one. Each is named: the sequence of a commit, the text of a
// delta in quotes, or gap.
func Observations(ctx context.Context, h *session.Host, id events.SessionID, cursor events.Seq, enough func(api.Observed) bool) (list []string, err error) {
	for o, err := range h.Observe(ctx, id, cursor) {
		if err != nil {
			return list, err
		}
		switch {
		case o.Commit != nil:
			list = append(list, fmt.Sprint(o.Seq))
		case o.Delta != nil:
			list = append(list, fmt.Sprintf("%q", o.Delta.Text))
		case o.Gap != nil:
			list = append(list, "gap")
		}
		if enough(o) {
			return list, nil
		}
	}
	return list, nil
}

// UpTo accepts the observation of a sequence.
func UpTo(seq events.Seq) func(api.Observed) bool {
	return func(o api.Observed) bool { return o.Seq == seq }
}

// Seqs are the names of the commits from first to last.
func Seqs(first, last events.Seq) []string {
	var list []string
	for ; first <= last; first++ {
		list = append(list, fmt.Sprint(first))
	}
	return list
}

// EventNames lists the tags of events, and the text of the replies that a watcher shows at the end.
func EventNames(list []api.SessionEvent) (tags []string, shown string) {
	var attempt string
	for _, e := range list {
		tags = append(tags, string(e.Type))
		switch e.Type {
		case api.EventTextDelta:
			attempt += e.Content
		case api.EventAttemptReset:
			attempt = ""
		case api.EventLLMResponse:
			shown, attempt = shown+attempt, ""
		default:
		}
	}
	return tags, shown
}

// TurnEvents runs a turn and collects all of its events.
func (b *System) TurnEvents(h *session.Host, id events.SessionID, turn events.TurnID, each func(api.SessionEvent)) []api.SessionEvent {
	b.T.Helper()
	_, stream, err := h.StartTurnStream(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{Text("hello")}}})
	runtest.WantError(b.T, "start turn", err, nil)
	var list []api.SessionEvent
	for e, err := range stream {
		runtest.WantError(b.T, "stream", err, nil)
		list = append(list, e)
		if each != nil {
			each(e)
		}
	}
	return list
}
