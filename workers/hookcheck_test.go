package workers_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/hookcheck"
)

// beforeTurn stores a session whose turn needs its first hooks, and returns its state.
func beforeTurn(t *testing.T, b *bus.Bus, id events.SessionID) *projector.State {
	t.Helper()
	s := projector.New(id)
	add := func(list ...events.Event) {
		c := &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list,
		}
		seq, err := b.Log().Append(t.Context(), c, s.Seq)
		if err == nil {
			err = s.Apply(events.Entry{Seq: seq, Commit: c})
		}
		runtest.NoError(t, err)
	}
	add(events.Of("", &events.SessionOpened{}))
	add(turn.Request(s, "t1", events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "hello"}}}})...)
	out, err := turn.Step(s, turn.Claim{Worker: "w1", Points: []events.HookPoint{events.PointBeforeTurn}})
	runtest.NoError(t, err)
	add(out.Events...)
	if needs := turn.Next(s); needs.Hooks != events.PointBeforeTurn {
		t.Fatalf("got the needs %+v, want hooks before the turn", needs)
	}
	return s
}

// recorded is a record of hooks, with a decision of each plugin.
func recorded(s *projector.State, plugins ...string) (h turn.Hooks) {
	needs := turn.Next(s)
	h.Ran = events.HookRan{Point: needs.Hooks, At: needs.At, Iteration: needs.Iteration}
	for _, id := range plugins {
		h.Ran.Decisions = append(h.Ran.Decisions, events.Decision{Plugin: id, Kind: events.DirectiveEnqueue, Count: 1})
	}
	return h
}

// TestRun runs the hooks of a program at a recorded point, or says why it does not.
func TestRun(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	greet := func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "Greet the user."))}, nil
	}
	asks := func(r *plugin.Registrar) error {
		r.TransformContext(1, func(ctx context.Context, in plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			_, err := in.Host.Complete(ctx, plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "?")}}, "own")
			if err == nil {
				return now, errors.New("the model answered")
			}
			return now, nil // it goes on without an answer
		})
		return nil
	}
	registers := func(hook plugin.HookFunc[plugin.TurnContext]) func(*plugin.Registrar) error {
		return func(r *plugin.Registrar) error { r.BeforeTurn(hook); return nil }
	}
	fails := func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
		return nil, errors.New("broken")
	}
	for name, c := range map[string]struct {
		register func(*plugin.Registrar) error
		record   func(*projector.State) turn.Hooks
		messages string
		failed   string
		skipped  string
	}{
		"runs":           {registers(greet), func(s *projector.State) turn.Hooks { return recorded(s, "greeter") }, "Greet the user.", "", ""},
		"other_decision": {registers(greet), func(s *projector.State) turn.Hooks { return recorded(s) }, "Greet the user.", "", ""},
		"fails":          {registers(fails), func(s *projector.State) turn.Hooks { return recorded(s, "greeter") }, "", "greeter", ""},
		"asks_a_model":   {asks, func(s *projector.State) turn.Hooks { return recorded(s, "greeter") }, "", "", "a hook asks a model"},
		"unknown_plugin": {registers(greet), func(s *projector.State) turn.Hooks { return recorded(s, "greeter", "gate") }, "", "", `this program has no plugin "gate"`},
		"unknown_plugin_failed": {registers(greet), func(s *projector.State) turn.Hooks {
			h := recorded(s)
			h.Ran.Failed = "gate"
			return h
		}, "", "", `this program has no plugin "gate"`},
		"another_point": {registers(greet), func(s *projector.State) turn.Hooks {
			h := recorded(s)
			h.Ran.Point = events.PointCheckpoint
			return h
		}, "", "", "other events came between the hooks and their record"},
		"another_iteration": {registers(greet), func(s *projector.State) turn.Hooks {
			h := recorded(s)
			h.Ran.Iteration++
			return h
		}, "", "", "other events came between the hooks and their record"},
	} {
		t.Run(name, func(t *testing.T) {
			checker, err := hookcheck.New(hookcheck.Config{Bus: b, Logger: zaptest.NewLogger(t), Plugins: plugin.BuilderConfig{
				Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{plugin.Func("greeter", c.register)},
			}})
			runtest.NoError(t, err)
			s := beforeTurn(t, b, events.SessionID(name))
			before := s.Seq
			got, compared, err := checker.Run(t.Context(), s, c.record(s))
			said := ""
			for _, m := range got.Messages {
				said += m.Text()
			}
			if err != nil || compared != (c.skipped == "") || said != c.messages || got.Ran.Failed != c.failed {
				t.Errorf("got %q, failed %q, compared %t, %v, want %q, %q", said, got.Ran.Failed, compared, err, c.messages, c.failed)
			}
			want := map[string]int64{}
			if c.skipped != "" {
				want[c.skipped] = 1
			}
			if !maps.Equal(checker.Skipped(), want) || s.Seq != before {
				t.Errorf("skipped: got %v, want %v", checker.Skipped(), want)
			}
		})
	}
}

// TestNew refuses plugins that no program can have together.
func TestNew(t *testing.T) {
	t.Parallel()
	none := func(*plugin.Registrar) error { return nil }
	_, err := hookcheck.New(hookcheck.Config{Plugins: plugin.BuilderConfig{Factories: []plugin.Factory{plugin.Func("twice", none), plugin.Func("twice", none)}}})
	if err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two plugins of one id: got %v, want an error", err)
	}
}
