package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// step answers one model call.
type step func(context.Context, llm.Request) (scripted.Answer, error)

// model plays its steps in order and keeps what it was asked.
type model struct {
	t *testing.T

	mu       sync.Mutex
	script   []step
	requests []llm.Request
}

func (m *model) answer(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, req)
	var next step
	if n < len(m.script) {
		next = m.script[n]
	}
	m.mu.Unlock()
	if next == nil {
		m.t.Errorf("model call %d, %s: got it, want no more than %d", n+1, req.Effect, len(m.script))
		return scripted.Answer{}, &llm.Error{Kind: llm.KindRequest, Message: "the script has ended"}
	}
	return next(ctx, req)
}

// asked is what the model was asked so far.
func (m *model) asked() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.Request(nil), m.requests...)
}

// prompt renders the messages of call n, from 0.
func (m *model) prompt(n int) []string {
	m.t.Helper()
	asked := m.asked()
	if n >= len(asked) {
		m.t.Fatalf("model calls: got %d, want more than %d", len(asked), n)
	}
	return transcript(asked[n].Messages)
}

// reply answers with parts and stops by itself.
func reply(parts ...events.Part) step {
	return stopped(events.StopEnd, events.Usage{Input: 10, Output: 5}, parts...)
}

func stopped(stop events.StopReason, usage events.Usage, parts ...events.Part) step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: parts, Stop: stop, Usage: usage}}, nil
	}
}

func fails(kind llm.ErrorKind, code string) step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{}, &llm.Error{Kind: kind, Code: code, Message: fmt.Sprintf("%s, says the test", kind)}
	}
}

// hangs streams parts, signals, and waits until it is cancelled.
func hangs(begun chan<- struct{}, parts ...events.Part) step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		close(begun)
		return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}, Hang: true}, nil
	}
}

// first runs do before it answers with next.
func first(do func(), next step) step {
	return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		do()
		return next(ctx, req)
	}
}
