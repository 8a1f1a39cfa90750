package playback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// Player plays plans. It is the client, the model and the tools of each. It is safe for concurrent use.
type Player struct {
	host  *session.Host
	watch Watch

	mu    sync.Mutex
	plays map[events.SessionID]*play
}

// play is one plan in progress.
type play struct {
	plan  *Plan
	tools *plugin.Tools
	hung  map[events.TurnID]chan struct{} // closed when the model or a tool of the turn hangs
	once  map[events.TurnID]*sync.Once
}

// NewPlayer creates a player whose client uses host.
func NewPlayer(host *session.Host) *Player {
	return &Player{host: host, plays: make(map[events.SessionID]*play)}
}

// Watch observes and changes the model and the tools, if these are in another process than the client. Each field may
// be nil.
type Watch struct {
	// Asked is called before the model or a tool responds. Its error becomes their error.
	Asked func(context.Context, events.SessionID, events.EffectID) error
	// Hung is called when the model or a tool waits for the client's cancel. It must not block.
	Hung func(events.SessionID, events.TurnID)
	// Effects are those that a tool of a plan declares. Defaults to idempotent. The calls of any other tool may be
	// lost: [Plan.MayLose] tells [Compare] so.
	Effects func(plan *Plan, tool string) events.Effects
}

// Watch sets the observer. Call it before Add.
func (p *Player) Watch(w Watch) { p.watch = w }

func (p *Player) asked(ctx context.Context, id events.SessionID, effect events.EffectID) error {
	if p.watch.Asked == nil {
		return nil
	}
	return p.watch.Asked(ctx, id, effect)
}

func (p *Player) hang(pl *play, turn events.TurnID) {
	pl.hang(turn)
	if p.watch.Hung != nil {
		p.watch.Hung(pl.plan.Session, turn)
	}
}

// Provider is the scripted model of all plans.
func (p *Player) Provider() llm.Provider { return scripted.New(p.complete) }

// Tools are the recorded tools of a session's plan.
func (p *Player) Tools(id events.SessionID) *plugin.Tools {
	if play := p.find(id); play != nil {
		return play.tools
	}
	return plugin.NewTools()
}

func (p *Player) find(id events.SessionID) *play {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plays[id]
}

// Add registers a plan with the model and the tools. Call it before the first turn.
func (p *Player) Add(plan *Plan) error {
	pl := &play{plan: plan, tools: plugin.NewTools(), hung: make(map[events.TurnID]chan struct{}), once: make(map[events.TurnID]*sync.Once)}
	for id := range plan.Turns {
		pl.hung[id], pl.once[id] = make(chan struct{}), &sync.Once{}
	}
	for _, name := range plan.Tools {
		effects := events.EffectsIdempotent
		if p.watch.Effects != nil {
			effects = p.watch.Effects(plan, name)
		}
		tool := plugin.Tool{Name: name, Effects: effects, Source: "recording", Schema: &jsonschema.Schema{}}
		if err := pl.tools.AddNamed(tool, p.call); err != nil {
			return fmt.Errorf("plan %s: %w", plan.Session, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plays[plan.Session] = pl
	return nil
}

func (pl *play) hang(turn events.TurnID) { pl.once[turn].Do(func() { close(pl.hung[turn]) }) }

var errUnplanned = errors.New("the recording has no such request")

// complete is the model: the recorded reply of the turn's iteration, after the actions that were recorded before it.
func (p *Player) complete(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	pl := p.find(req.Session)
	if pl == nil || pl.plan.Turns[req.Turn] == nil {
		return scripted.Answer{}, &llm.Error{Kind: llm.KindRequest, Code: "unplanned", Message: fmt.Sprintf("%v: turn %s of session %s", errUnplanned, req.Turn, req.Session)}
	}
	if err := p.asked(ctx, req.Session, req.Effect); err != nil {
		return scripted.Answer{}, err
	}
	turn := pl.plan.Turns[req.Turn]
	reply := &Reply{hang: true} // after the end of the recording
	if int(req.Iteration) < len(turn.Replies) {
		reply = turn.Replies[req.Iteration]
	}
	if reply.hang || len(reply.before) > 0 {
		if err := p.settled(ctx, req); err != nil {
			return scripted.Answer{}, err
		}
	}
	for i := range reply.before {
		if err := p.act(ctx, req.Session, &reply.before[i]); err != nil {
			return scripted.Answer{}, fmt.Errorf("before reply %d of turn %s: %w", req.Iteration, req.Turn, err)
		}
	}
	if reply.hang {
		p.hang(pl, req.Turn)
	}
	return scripted.Answer{Response: reply.Response, Hang: reply.hang, Keep: reply.hang && int(req.Iteration) < len(turn.Replies)}, nil
}

// settledEvery is the interval of the checks in [Player.settled].
const settledEvery = time.Millisecond

// settled waits until the history has the results before a model call, and the inputs with them. The model call may
// start before that, and an action of the client would then be before them.
func (p *Player) settled(ctx context.Context, req llm.Request) error {
	ticks := time.NewTicker(settledEvery)
	defer ticks.Stop()
	for {
		s, err := p.host.State(ctx, req.Session)
		switch {
		case errors.Is(err, events.ErrOutcomeUnknown): // the servers are away: not an error of the model
		case err != nil:
			return err
		default:
			if t := s.Turn(); t == nil || t.ID != req.Turn || t.Iteration >= req.Iteration {
				return nil
			}
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// call is every tool: the recorded result of the call. The key is the effect, because recorded call ids repeat.
func (p *Player) call(ctx context.Context, c plugin.Call, _ json.RawMessage) (plugin.Result, error) {
	pl := p.find(c.Session)
	call, err := pl.callOf(c)
	if err != nil {
		return plugin.Result{}, err
	}
	if err := p.asked(ctx, c.Session, c.Effect); err != nil {
		return plugin.Result{}, err
	}
	for i := range call.Inject {
		if err := p.act(ctx, c.Session, &call.Inject[i]); err != nil {
			return plugin.Result{}, err
		}
	}
	switch {
	case call.Hang:
		p.hang(pl, c.Turn)
		<-ctx.Done()
		return plugin.Result{}, ctx.Err()
	case call.Result == nil:
		return plugin.Result{Outcome: events.OutcomeCancelled, Text: turn.UnansweredText}, nil
	}
	result := plugin.Result{Text: call.Result.Text, Attachments: call.Result.Attachments}
	if call.Result.Failed {
		result.Outcome = events.OutcomeFailure
	}
	return result, nil
}

func (pl *play) callOf(c plugin.Call) (*Call, error) {
	id, iteration, index, ok := turn.ParseToolEffect(c.Effect)
	t := pl.plan.Turns[id]
	if !ok || t == nil || iteration >= int64(len(t.Replies)) || index >= int64(len(t.Replies[iteration].Calls)) {
		return nil, fmt.Errorf("%w: effect %s", errUnplanned, c.Effect)
	}
	return t.Replies[iteration].Calls[index], nil
}

// act performs a recorded action of a client. Every action may be repeated.
func (p *Player) act(ctx context.Context, id events.SessionID, a *action) error {
	switch {
	case a.node != nil:
		_, err := p.host.AppendNodes(ctx, id, api.AppendNodesRequest{
			Nodes: []api.AppendNode{*a.node}, IdempotencyKey: string(entryNode(a.entry)),
		})
		return err
	case a.inject != nil:
		_, err := p.host.Inject(ctx, id, *a.inject)
		return err
	case a.config != nil:
		return p.host.Configure(ctx, id, api.ConfigureRequest{
			Change: a.configure, IdempotencyKey: string(entryNode(a.entry)),
		})
	case a.frame != nil:
		return p.open(ctx, id, a)
	case a.branch != nil:
		return p.host.BranchTo(ctx, id, *a.branch)
	}
	return nil
}

// open opens a frame. The entries that a compaction keeps may be on another branch.
func (p *Player) open(ctx context.Context, id events.SessionID, a *action) error {
	s, err := p.host.State(ctx, id)
	if err != nil {
		return err
	}
	path, err := s.Path()
	if err != nil {
		return err
	}
	on := make(map[events.NodeID]bool, len(path))
	for _, n := range path {
		on[n.ID] = true
	}
	frame := *a.frame
	if i := slices.IndexFunc(a.keep, func(n events.NodeID) bool { return on[n] }); i >= 0 {
		frame.Keep = a.keep[i]
	}
	_, err = p.host.OpenFrame(ctx, id, frame)
	return err
}

// Play plays a plan from the current position of its session to its end. after, which may be nil, is called after
// every step.
func (p *Player) Play(ctx context.Context, plan *Plan, after func(*Step)) error {
	if _, err := p.host.Create(ctx, api.CreateRequest{ID: plan.Session}); err != nil && !errors.Is(err, api.ErrExists) {
		return err
	}
	done, err := p.progress(ctx, plan)
	if err != nil {
		return err
	}
	for i := range plan.Steps {
		if i >= done {
			if err := p.step(ctx, plan, &plan.Steps[i]); err != nil {
				return fmt.Errorf("session %s, line %d: %w", plan.Session, plan.line(&plan.Steps[i]), err)
			}
		}
		if after != nil {
			after(&plan.Steps[i])
		}
	}
	return nil
}

func (p *Player) step(ctx context.Context, plan *Plan, s *Step) error {
	if s.action != nil {
		return p.act(ctx, plan.Session, s.action)
	}
	for i := range s.Turn.before {
		if err := p.act(ctx, plan.Session, &s.Turn.before[i]); err != nil {
			return err
		}
	}
	return p.turn(ctx, plan.Session, s.Turn)
}

// turn runs a turn, and cancels it if its recording was aborted.
func (p *Player) turn(ctx context.Context, id events.SessionID, t *Turn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	if t.cancel {
		hung := p.find(id).hung[t.ID]
		watcher.Go(func() {
			select {
			case <-hung:
			case <-ctx.Done():
				return
			}
			_, _, err := p.host.Cancel(ctx, id, t.ID, api.CancelRequest{ID: "abort-" + string(t.ID), Origin: "recording"})
			if err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	_, err := p.host.Run(ctx, id, api.TurnRequest{ID: t.ID, Input: t.input})
	cancel(nil)
	return err
}

// progress is the number of steps in the history: all up to the newest that it has.
func (p *Player) progress(ctx context.Context, plan *Plan) (int, error) {
	s, err := p.host.State(ctx, plan.Session)
	if err != nil {
		return 0, err
	}
	for i := len(plan.Steps) - 1; i >= 0; i-- {
		found, err := landed(s, &plan.Steps[i])
		if err != nil || found {
			return i + 1, err
		}
	}
	return 0, nil
}
