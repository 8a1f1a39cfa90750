package harness

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// AddReply adds a reply to the script.
func (m *Model) AddReply(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Script = append(m.Script[:len(m.received)], Reply(Text(s)))
}

// Step answers one model call.
type Step func(context.Context, llm.Request) (scripted.Answer, error)

// Model plays its steps in order and records its requests.
type Model struct {
	T *testing.T

	mu       sync.Mutex
	Script   []Step
	received []llm.Request
}

// Answer implements [scripted.Script]. It plays the next step.
func (m *Model) Answer(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	m.mu.Lock()
	n := len(m.received)
	m.received = append(m.received, req)
	var next Step
	if n < len(m.Script) {
		next = m.Script[n]
	}
	m.mu.Unlock()
	if next == nil {
		m.T.Errorf("model call %d, %s: got it, want no more than %d", n+1, req.Effect, len(m.Script))
		return scripted.Answer{}, &llm.Error{Kind: llm.KindRequest, Message: "the script has ended"}
	}
	return next(ctx, req)
}

// Requests lists the requests so far.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]llm.Request(nil), m.received...)
}

// Prompt renders the messages of call n, from 0.
func (m *Model) Prompt(n int) []string {
	m.T.Helper()
	requests := m.Requests()
	if n >= len(requests) {
		m.T.Fatalf("model calls: got %d, want more than %d", len(requests), n)
	}
	return Transcript(requests[n].Messages)
}

// Reply answers with parts and stops by itself.
func Reply(parts ...events.Part) Step {
	return ReplyStopped(events.StopEnd, events.Usage{Input: 10, Output: 5}, parts...)
}

// ReplyStopped answers with parts, a stop reason and a usage.
func ReplyStopped(stop events.StopReason, usage events.Usage, parts ...events.Part) Step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Parts: parts, Stop: stop, Usage: usage}}, nil
	}
}

// Fail answers with an error of the provider.
func Fail(kind llm.ErrorKind, code string) Step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{}, &llm.Error{Kind: kind, Code: code, Message: fmt.Sprintf("%s, says the test", kind)}
	}
}

// Hang streams parts, signals, and waits until it is cancelled.
func Hang(started chan<- struct{}, parts ...events.Part) Step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		close(started)
		return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}, Hang: true}, nil
	}
}

// DoFirst runs do before it answers with next.
func DoFirst(do func(), next Step) Step {
	return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		do()
		return next(ctx, req)
	}
}
