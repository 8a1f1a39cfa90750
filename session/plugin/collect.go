package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
)

// collect runs hooks in order. The first error stops the rest and discards all directives; so does an invalid list.
// Each hook gets its own copy of the context, made by own.
func collect[C any](
	ctx context.Context, s *Stack, point events.HookPoint, hooks []Owned[HookFunc[C]], in C, own func(C) C,
) ([]Owned[Directive], error) {
	var all []Owned[Directive]
	for _, h := range hooks {
		in := own(in)
		list, err := contain(ctx, s, h.Plugin, string(point), func(ctx context.Context) ([]Directive, error) { return h.Value(ctx, in) })
		if err != nil {
			return nil, hookError(h.Plugin, string(point), err)
		}
		for _, d := range list {
			all = append(all, Owned[Directive]{h.Plugin, d})
		}
	}
	if err := checkDirectives(point, all); err != nil {
		return nil, err
	}
	return all, nil
}

// BeforeTurn runs the hooks before a turn.
func (s *Stack) BeforeTurn(ctx context.Context, in TurnContext) ([]Owned[Directive], error) {
	return collect(ctx, s, events.PointBeforeTurn, s.c.beforeTurn, in, func(in TurnContext) TurnContext {
		in.Input = ownInput(in.Input)
		return in
	})
}

// BeforeModelCall runs the hooks before a model call.
func (s *Stack) BeforeModelCall(ctx context.Context, in ModelContext) ([]Owned[Directive], error) {
	return collect(ctx, s, events.PointBeforeModel, s.c.beforeModel, in, func(in ModelContext) ModelContext { return in })
}

// AtCheckpoint runs the checkpoint hooks.
func (s *Stack) AtCheckpoint(ctx context.Context, in CheckpointContext) ([]Owned[Directive], error) {
	return collect(ctx, s, events.PointCheckpoint, s.c.checkpoint, in, func(in CheckpointContext) CheckpointContext { return in })
}

// AfterTurn runs the hooks after a turn.
func (s *Stack) AfterTurn(ctx context.Context, in TurnResultContext) ([]Owned[Directive], error) {
	return collect(ctx, s, events.PointAfterTurn, s.c.afterTurn, in, func(in TurnResultContext) TurnResultContext { return in })
}

// BeforeToolCall runs the hooks before a call, and then those that authorize it with the arguments of the last
// replacement.
func (s *Stack) BeforeToolCall(ctx context.Context, in ToolContext) ([]Owned[Directive], error) {
	list, err := collect(ctx, s, events.PointBeforeTool, s.c.beforeTool, in, ownCall)
	if err != nil {
		return nil, err
	}
	for i := range list {
		d := &list[i].Value
		if d.Kind == events.DirectiveAbort {
			return list, nil // the call does not run
		}
		if d.Kind == events.DirectiveReplaceArgs {
			in.Args = d.Args
		}
	}
	rules, err := collect(ctx, s, events.PointBeforeTool, s.c.authorize, in, ownCall)
	if err == nil {
		err = checkRules(rules)
	}
	if err != nil {
		return nil, err
	}
	return append(list, rules...), nil
}

// AfterToolCall runs the hooks after a call.
func (s *Stack) AfterToolCall(ctx context.Context, in ToolResultContext) ([]Owned[Directive], error) {
	return collect(ctx, s, events.PointAfterTool, s.c.afterTool, in, ownResult)
}

func ownInput(in events.TurnInput) events.TurnInput {
	in.Parts, in.Options = slices.Clone(in.Parts), slices.Clone(in.Options)
	return in
}

func ownCall(in ToolContext) ToolContext {
	in.Args = slices.Clone(in.Args)
	return in
}

func ownResult(in ToolResultContext) ToolResultContext {
	in.Args, in.Result.Attachments = slices.Clone(in.Args), slices.Clone(in.Result.Attachments)
	return in
}

// Points lists the points of a turn at which this stack has hooks.
func (s *Stack) Points() []events.HookPoint {
	var list []events.HookPoint
	add := func(p events.HookPoint, wanted bool) {
		if wanted {
			list = append(list, p)
		}
	}
	add(events.PointBeforeTurn, len(s.c.beforeTurn)+len(s.c.transforms)+len(s.c.prompt) > 0 || s.contributes())
	add(events.PointBeforeModel, len(s.c.beforeModel) > 0)
	add(events.PointBeforeTool, len(s.c.beforeTool)+len(s.c.authorize) > 0)
	add(events.PointAfterTool, len(s.c.afterTool) > 0)
	add(events.PointCheckpoint, len(s.c.checkpoint)+len(s.c.afterTool) > 0)
	add(events.PointAfterTurn, len(s.c.afterTurn) > 0 || s.HasLifecycle())
	return list
}

// HasResultHooks reports whether a plugin processes call results before they are recorded.
func (s *Stack) HasResultHooks() bool { return len(s.c.afterTool) > 0 || s.c.projector != nil }

// contributes reports whether the protocol or an overlay adds to prompts.
func (s *Stack) contributes() bool {
	s.mu.Lock()
	overlaid := len(s.overlay.Contributions) > 0
	s.mu.Unlock()
	p, err := s.Preamble(s.c.tools.entries, nil)
	return overlaid || err != nil || len(p.Contributions) > 0 // the hook point reports the error
}

// PrepareContext runs the context transforms. Each gets the result of the one before.
func (s *Stack) PrepareContext(ctx context.Context, in TransformContext, now Prepared) (Prepared, error) {
	for _, h := range s.c.transforms {
		next, err := contain(ctx, s, h.Plugin, "context_transform", func(ctx context.Context) (Prepared, error) {
			next, err := h.Value.fn(ctx, in, now)
			return next, errors.Join(err, next.check())
		})
		if err != nil {
			return Prepared{}, hookError(h.Plugin, "context_transform", err)
		}
		now = next
	}
	return now, nil
}

func (p *Prepared) check() error {
	for i := range p.Messages {
		if err := p.Messages[i].Validate(); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
	}
	if p.Overlay == nil {
		return nil
	}
	return p.Overlay.Check()
}

// HasTransforms reports whether a plugin transforms contexts.
func (s *Stack) HasTransforms() bool { return len(s.c.transforms) > 0 }

// compactTimeout is the minimum timeout of a compactor, because it may call a model.
const compactTimeout = 5 * time.Minute

// Compact runs the compactors in order. The first result with nodes wins.
func (s *Stack) Compact(ctx context.Context, in TransformContext) (Owned[Compaction], error) {
	for _, h := range s.c.compactors {
		c, err := containFor(ctx, s, max(s.builder.timeout, compactTimeout), h.Plugin, "compact", func(ctx context.Context) (Compaction, error) {
			return h.Value.fn(ctx, in)
		})
		if err != nil {
			return Owned[Compaction]{}, hookError(h.Plugin, "compact", err)
		}
		if len(c.Nodes) > 0 {
			return Owned[Compaction]{h.Plugin, c}, nil
		}
	}
	return Owned[Compaction]{}, nil
}

// Contributions collects the contributions of plugins and of the overlay, sorted by [SortContributions].
func (s *Stack) Contributions(ctx context.Context, in PromptContext, overlay []events.Contribution) ([]events.Contribution, error) {
	var all []events.Contribution
	for _, h := range s.c.prompt {
		in.Input, in.Options = ownInput(in.Input), slices.Clone(in.Options)
		list, err := contain(ctx, s, h.Plugin, "prompt", func(ctx context.Context) ([]events.Contribution, error) {
			list, err := h.Value(ctx, in)
			return list, errors.Join(err, (&events.TurnPrepared{Contributions: list}).Validate())
		})
		if err != nil {
			return nil, hookError(h.Plugin, "prompt", err)
		}
		all = append(all, list...)
	}
	return SortContributions(append(all, overlay...)), nil
}

// SortContributions drops duplicates and sorts by slot name and then by ascending priority. Contributions with the
// same slot, priority and trimmed content are duplicates; the first one stays.
func SortContributions(list []events.Contribution) []events.Contribution {
	type identity struct {
		slot     events.Slot
		priority int64
		content  string
	}
	seen := make(map[identity]bool, len(list))
	var kept []events.Contribution
	for _, c := range list {
		id := identity{c.Slot, c.Priority, strings.TrimSpace(c.Content)}
		if !seen[id] {
			seen[id] = true
			kept = append(kept, c)
		}
	}
	slices.SortStableFunc(kept, func(a, b events.Contribution) int {
		if c := strings.Compare(string(a.Slot), string(b.Slot)); c != 0 {
			return c
		}
		return cmp.Compare(a.Priority, b.Priority)
	})
	return kept
}

// TransformStream runs a chunk of text through the stream hooks. Each gets the chunk of the one before. Events and
// reasoning of all hooks are collected, events with their plugin. One abort is enough.
func (s *Stack) TransformStream(ctx context.Context, chunk string) (StreamTransform, []Owned[[]byte], error) {
	now := StreamTransform{Chunk: chunk}
	var shown []Owned[[]byte]
	for _, h := range s.c.streams {
		t, err := contain(ctx, s, h.Plugin, "assistant_stream", func(ctx context.Context) (StreamTransform, error) {
			t, err := h.Value(ctx, s.id, now.Chunk)
			return t, errors.Join(err, checkEvents(t.Events))
		})
		if err != nil {
			return StreamTransform{}, nil, hookError(h.Plugin, "assistant_stream", err)
		}
		now.Chunk, now.Abort, now.Reasoning = t.Chunk, now.Abort || t.Abort, append(now.Reasoning, t.Reasoning...)
		for _, e := range t.Events {
			shown = append(shown, Owned[[]byte]{h.Plugin, e})
		}
	}
	return now, shown, nil
}

// checkEvents refuses events that are no JSON, or nest deeply.
func checkEvents(list []json.RawMessage) error {
	for i, e := range list {
		if err := checkValue(fmt.Sprintf("events[%d]", i), e); err != nil {
			return err
		}
	}
	return nil
}

// checkValue refuses what is no JSON, and what nests deeper than readers of a history accept.
func checkValue(field string, data []byte) error {
	if err := events.CheckJSON(field, data); err != nil {
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%s is no JSON", field)
	}
	return nil
}

// EndStream runs the stream-end hooks.
func (s *Stack) EndStream(ctx context.Context, reason StreamEnd) {
	for _, h := range s.c.streamEnds {
		_, err := contain(ctx, s, h.Plugin, "stream_end", func(ctx context.Context) (struct{}, error) {
			h.Value(ctx, s.id, reason)
			return struct{}{}, nil
		})
		if err != nil {
			s.builder.warn(h.Plugin, "stream_end", err)
		}
	}
}

// TransformResponse runs a whole reply through the response hooks.
func (s *Stack) TransformResponse(ctx context.Context, r Response) (Response, []Owned[[]byte], error) {
	type answer struct {
		Response
		shown []json.RawMessage
	}
	var shown []Owned[[]byte]
	for _, h := range s.c.responses {
		next, err := contain(ctx, s, h.Plugin, "assistant_response", func(ctx context.Context) (answer, error) {
			next, list, err := h.Value(ctx, s.id, r)
			if err == nil {
				err = errors.Join(checkEvents(list), (&events.ModelReplied{Parts: next.Parts, Stop: next.Stop}).Validate())
			}
			return answer{next, list}, err
		})
		if err != nil {
			return Response{}, nil, hookError(h.Plugin, "assistant_response", err)
		}
		for _, e := range next.shown {
			shown = append(shown, Owned[[]byte]{h.Plugin, e})
		}
		r = next.Response
	}
	return r, shown, nil
}

// ProjectToolResult returns the model's view of a result. If the projector fails, this is the error's text.
func (s *Stack) ProjectToolResult(ctx context.Context, in ToolResultContext) (view View, projected bool) {
	if s.c.projector == nil {
		return View{}, false
	}
	p := s.c.projector
	in = ownResult(in)
	view, err := contain(ctx, s, p.Plugin, "tool_result", func(ctx context.Context) (View, error) {
		view, err := p.Value(ctx, in)
		if err == nil {
			err = (&Result{Text: view.Text, Attachments: view.Attachments}).Check()
		}
		return view, err
	})
	if err != nil {
		return View{Text: hookError(p.Plugin, "tool_result", err).Error()}, true
	}
	return view, true
}

// NotifyLifecycle sends a lifecycle event to all plugins concurrently and waits for them. Errors are logged.
func (s *Stack) NotifyLifecycle(ctx context.Context, e Lifecycle) {
	var wait sync.WaitGroup
	for _, h := range s.c.lifecycle {
		e := e
		if e.State != nil {
			e.State = e.State.Clone() // a state caches query results, so two hooks must not share one
		}
		wait.Go(func() {
			_, err := contain(ctx, s, h.Plugin, string(e.Kind), func(ctx context.Context) (struct{}, error) {
				return struct{}{}, h.Value(ctx, e)
			})
			if err != nil {
				s.builder.warn(h.Plugin, string(e.Kind), err)
			}
		})
	}
	wait.Wait()
}

// MutateConfig runs the config mutators on a configuration that a host sets. A mutator that fails is skipped.
func (s *Stack) MutateConfig(ctx context.Context, change ConfigChange) events.Config {
	now := change.Current
	for _, h := range s.c.mutators {
		next, err := contain(ctx, s, h.Plugin, "config", func(ctx context.Context) (events.Config, error) {
			next, err := h.Value(ctx, change, now)
			return next, errors.Join(err, (&events.SessionConfigured{Config: next}).Validate())
		})
		if err != nil {
			s.builder.warn(h.Plugin, "config", err)
			continue
		}
		now = next
	}
	return now
}
