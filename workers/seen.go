package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// seen is the state that effects which start together see. Nothing changes it.
type seen struct {
	state   *projector.State
	copying sync.Mutex // effects copy the state beside each other
	view    projector.ReadView
	options []byte // the protocol's turn options that count
	session events.SessionID
	turn    events.TurnID
	input   events.TurnInput
	w       *Worker
}

// seen takes a copy of the working state.
func (r *run) seen() *seen {
	s := &seen{state: r.state.Clone(), options: r.options(), session: r.job.Session, w: r.w}
	s.view, _ = r.state.View() // whole, as a run's state is; from there, as that remembers
	if t := s.state.Turn(); t != nil {
		s.turn, s.input = t.ID, t.Input
	}
	return s
}

// offers reports whether a tool can be called. A protocol's code is part of no catalogue.
func (s *seen) offers(tool string) bool {
	entry, known := s.state.Catalog.Tool(tool)
	return known && entry.Callable() || tool == plugin.ToolCode
}

// host serves the plugins of an effect.
func (s *seen) host(effect events.EffectID) plugin.RuntimeHost {
	return s.w.host.Services(s.session, s.copy, effect)
}

// copy is the state for one plugin.
func (s *seen) copy() *projector.State {
	s.copying.Lock()
	defer s.copying.Unlock()
	return s.state.Clone()
}

// facts lets an effect of a turn record what must be durable before it goes
// on. It returns when that has landed.
func (r *run) facts(ctx context.Context, owner events.TurnID, list ...events.Payload) error {
	landed := make(chan error, 1)
	select {
	case r.asked <- fact{owner, list, landed}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-landed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fact is what an effect wants recorded.
type fact struct {
	turn   events.TurnID
	list   []events.Payload
	landed chan<- error // one answer; it never blocks
}

// recordFact records what an effect asked for. One whose turn has ended, and
// that ignored its context, is told so; the run goes on. So is one whose turn
// another worker took over while the answer to the append was on its way: what
// it asked for has landed, and it must not go on all the same.
func (r *run) recordFact(ctx context.Context, f fact) error {
	err := r.upheld(f.turn)
	if err != nil {
		f.landed <- err
		return nil
	}
	err = r.take(ctx, turn.Facts{Beside: f.list})
	if err == nil {
		err = r.flush(ctx)
	}
	for err == nil && r.aged() {
		if err = r.renew(ctx); errors.Is(err, errUnanswered) {
			_ = r.job.Progress()
			bus.Sleep(ctx, watchEvery)
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		f.landed <- err
		return err
	}
	f.landed <- r.upheld(f.turn)
	return nil
}

// upheld is a [turn.ErrStale] where a turn has ended, or is another worker's.
func (r *run) upheld(id events.TurnID) error {
	if t := r.state.Turn(); t == nil || t.ID != id || t.Worker != r.w.cfg.ID {
		return fmt.Errorf("turn %s: %w", id, turn.ErrStale)
	}
	return nil
}
