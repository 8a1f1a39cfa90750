package sim

import (
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// batch is the pending commit of a run. The run's state includes its events; durable is the state without them.
type batch struct {
	ahead   bool // a reply among the inputs answers a prompt with events of the batch
	events  []events.Event
	inputs  []turn.Input
	durable *projector.State
	at      events.Millis
}

// step steps the machine with an input. Events that may not wait are appended before it returns.
func (r *run) step(in turn.Input) error {
	out, err := r.decide(in)
	if err != nil {
		return unlessStale(err)
	}
	if out.Linger && !r.w.chance(3, "flushes") {
		return nil
	}
	return r.flush()
}

// decide steps the machine and adds the events to the batch.
func (r *run) decide(in turn.Input) (turn.Output, error) {
	out, err := turn.Step(r.state, in)
	if err == nil {
		r.add(in, out.Events)
	}
	return out, err
}

// unlessStale drops the error of an input for which the state has no need any more.
func unlessStale(err error) error {
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	return err
}

// record appends events without an input of the machine.
func (r *run) record(list []events.Event) error {
	r.add(nil, list)
	return r.flush()
}

func (r *run) add(in turn.Input, list []events.Event) {
	if len(r.batch.events) == 0 {
		r.batch.durable, r.batch.at = r.state.Clone(), r.w.now
	}
	for i := range list {
		r.state.ApplyUncommitted(&list[i], r.batch.at)
		r.batch.events = append(r.batch.events, list[i])
	}
	if in != nil {
		r.batch.inputs = append(r.batch.inputs, in)
	}
}

// rollBack discards the batch.
func (r *run) rollBack() {
	if r.batch.durable != nil {
		r.state = r.batch.durable
	}
	r.batch = batch{}
}

// flush appends the batch. After a conflict it folds the commits of others and steps the same inputs again.
func (r *run) flush() error {
	for len(r.batch.events) > 0 {
		c := r.w.commit(r.session, r.n.id, r.batch.events...)
		c.At = r.batch.at
		count, at := r.arrivals, r.batch.durable.Seq
		r.w.logAppend(string(r.n.id), c, at)
		seq, err := r.w.log.Append(r.w.ctx, c, at)
		if err == nil && seq == at+1 {
			r.current, r.arrivalsRead = r.w.now, count
			return r.committed(c)
		}
		inputs, ahead := r.batch.inputs, r.batch.ahead
		r.rollBack()
		if err == nil { // the log ignores the expected sequence
			err = &events.ConflictError{Session: r.session, Expected: at, Last: seq}
		}
		if !errors.As(err, new(*events.ConflictError)) {
			return err
		}
		if err := r.stepAgain(inputs, ahead); err != nil {
			return err
		}
	}
	return nil
}

// committed makes the batch part of the history: the state includes it already.
func (r *run) committed(c *events.Commit) error {
	if err := r.state.Committed(c); err != nil {
		return err
	}
	r.n.host.states[r.session] = r.state.Clone()
	list := r.batch.events
	r.batch = batch{}
	for _, e := range r.inflight {
		e.ahead = false
	}
	for i := range list {
		if p, ok := list[i].Payload.(*events.TurnStarted); ok {
			r.setClaim(list[i].Turn, p.Attempt)
		}
	}
	return nil
}

// stepAgain folds the tail and steps the same inputs again.
func (r *run) stepAgain(inputs []turn.Input, ahead bool) error {
	r.w.t.Logf("%s conflicts in %s", r.n.id, r.session)
	if err := follow.SyncAfterConflict(r.w.ctx, r.w.log, nil, r.state); err != nil {
		return err
	}
	for _, in := range inputs {
		if _, claims := in.(turn.Claim); claims {
			return nil // stepped again
		}
		if !r.isOurs(r.state.Turn()) {
			return errSuperseded
		}
		if digest := in.PromptDigest(); ahead && digest != "" && !r.hasPrompt(digest) {
			continue
		}
		out, err := turn.Step(r.state, in)
		if errors.Is(err, turn.ErrStale) {
			continue
		}
		if err != nil {
			return err
		}
		r.add(in, out.Events)
		r.batch.ahead = ahead
	}
	running := r.inflight[:0]
	for _, e := range r.inflight {
		if e.cancelled = e.ahead && !r.hasPrompt(e.prompt); !e.cancelled {
			running = append(running, e)
		}
	}
	r.inflight = running
	return nil
}

// hasPrompt reports whether the state produces the prompt with the digest.
func (r *run) hasPrompt(digest string) bool {
	p, err := r.state.Prompt()
	return err == nil && p.Ref.Digest == digest
}
