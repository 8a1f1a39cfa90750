package run

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

func (r *run) foldKey() bus.TrialKey { return bus.TrialKey{Session: r.session, Of: bus.TrialFold} }

func (r *run) turnKey(id events.TurnID) bus.TrialKey {
	return bus.TrialKey{Session: r.session, Of: bus.TrialTurn, Turn: id}
}

// attempt begins an attempt at work, unless it is under way. It is suspicious where an earlier attempt may have killed its worker. running is
// the running turn where the work is that turn's.
func (r *run) attempt(ctx context.Context, key bus.TrialKey, running *projector.Turn, suspicious bool) (err error) {
	if r.trial != nil {
		if r.trial.Key == key || len(r.endCalls.running) > 0 {
			return nil
		}
		r.trial.Withdraw(ctx) // another turn goes first
		r.trial = nil
	}
	if !suspicious {
		return r.p.trials.First(r.session)
	}
	r.trial, err = r.p.trials.Begin(ctx, key, running)
	return err
}

// attempted is the work that an attempt which failed was at, and the running turn where it was that turn's.
func (r *run) attempted() (bus.TrialKey, *projector.Turn) {
	if r.m.State == nil {
		return r.foldKey(), nil
	}
	t := r.m.State.Turn()
	id, _ := turn.Upcoming(r.m.State)
	switch {
	case t != nil:
		return r.turnKey(t.ID), t
	case r.trial != nil:
		return r.trial.Key, nil
	case id != "":
		return r.turnKey(id), nil
	case len(r.m.State.Unnotified) > 0:
		return bus.TrialKey{Session: r.session, Of: bus.TrialEnd, Turn: r.m.State.Unnotified[0].Turn}, nil
	}
	return bus.TrialKey{Session: r.session, Of: bus.TrialRest}, nil
}

// noteProgress ends the attempt at a turn that made progress, or ended.
func (r *run) noteProgress(ctx context.Context) {
	t := r.m.State.Turn()
	progressed := t != nil && t.Starts == 0
	if r.trial != nil && r.trial.Key.Of == bus.TrialTurn && t == nil {
		id, _ := turn.Upcoming(r.m.State)
		progressed = id != r.trial.Key.Turn
	}
	if !progressed {
		return
	}
	r.suspicious = false
	if r.trial != nil && r.trial.Key.Of == bus.TrialTurn {
		r.endTrial(ctx)
	}
}

// endTrial ends the attempt under way, whose count starts again.
func (r *run) endTrial(ctx context.Context) {
	r.trial.Clear(ctx)
	r.trial = nil
}
