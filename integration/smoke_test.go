package integration

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestSmoke(t *testing.T) {
	b := bustest.Start(t)
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "add", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, in struct{ A, B int }) (int, error) {
		return in.A + in.B, nil
	})
	p := scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Iteration == 0 {
			return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "c1", Tool: "add", Args: []byte(`{"A":1,"B":2}`)}}}}, nil
		}
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: "sum is " + req.Messages[len(req.Messages)-1].Parts[0].Text}}}}, nil
	})
	w, err := workers.New(workers.Config{Bus: b, Providers: map[string]llm.Provider{"scripted": p}, Provider: "scripted", Tools: func(events.SessionID) *plugin.Tools { return tools }, Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.Stop(t.Context())
	h, _ := session.New(session.Config{Bus: b})
	id, err := h.Create(t.Context(), session.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		start := time.Now()
		r, err := h.Run(t.Context(), id, session.TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "1+2?"}}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r, time.Since(start))
	}
	s, _ := h.State(t.Context(), id)
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Commit.Events {
			t.Logf("%d.%d %s %+v", e.Seq, i, e.Commit.Events[i].Kind, e.Commit.Events[i].Payload)
		}
	}
}
