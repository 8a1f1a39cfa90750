package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/trace"
	"github.com/lash-go/lash/workers/internal/wake"
)

// batch is the commit that a run prepares. The run's state has its events folded ahead; durable is the state without
// them.
type batch struct {
	// ahead: the batch has the reply to a prompt that contained events of the batch, which the log did not have yet. After a
	// conflict the reply counts only where the prompt is still the same.
	ahead     bool
	events    []events.Event
	inputs    []turn.Input // the events follow from these inputs, which are stepped again after a conflict
	startedAt events.Millis
	bytes     int
	durable   *projector.State
	states    []events.Payload // of plugins, which changed as calls were given to instances
	linger    *time.Timer
}

func (b *batch) timer() <-chan time.Time {
	if b.linger == nil {
		return nil
	}
	return b.linger.C
}

func (b *batch) clear() {
	if b.linger != nil {
		b.linger.Stop()
	}
	*b = batch{}
}

// flushBytes is the size at which a lingering commit is appended.
const flushBytes = 512 << 10

// step decides on an input and adds the events to the batch. It appends the batch unless the batch may linger.
func (r *run) step(ctx context.Context, in turn.Input) error {
	out, err := r.decide(ctx, in)
	if err != nil {
		return err
	}
	if out.Linger && r.p.cfg.Linger > 0 && r.batch.bytes < flushBytes {
		if r.batch.linger == nil {
			r.batch.linger = time.NewTimer(r.p.cfg.Linger)
		}
		return nil
	}
	return r.flush(ctx)
}

func (r *run) decide(ctx context.Context, in turn.Input) (turn.Output, error) {
	out, err := turn.Step(r.state, in)
	if err != nil {
		return out, err
	}
	return out, r.add(ctx, in, out.Events)
}

// record appends events that follow from no input of the state machine.
func (r *run) record(ctx context.Context, list []events.Event) error {
	if err := r.add(ctx, nil, list); err != nil {
		return err
	}
	return r.flush(ctx)
}

// add folds events ahead and puts them in the batch, with large bodies in blobs.
func (r *run) add(ctx context.Context, in turn.Input, list []events.Event) error {
	r.beginBatch()
	list = r.withAnnounced(list)
	for i := 0; i < len(list); i++ {
		if r.dropStale(&list[i]) {
			continue
		}
		states, err := r.assignHolders(list[i].Payload)
		if err != nil {
			return err
		}
		for _, p := range states {
			list = append(list, events.Of(list[i].Turn, p))
		}
		payload, err := blob.Spill(ctx, r.p.cfg.Calls.Blobs, list[i].Payload)
		if err != nil {
			return r.refuseBatch(ctx, in, err)
		}
		list[i].Payload = payload
		r.foldAhead(&list[i])
	}
	if in != nil {
		r.batch.inputs = append(r.batch.inputs, in)
	}
	return nil
}

// beginBatch keeps the state without the events of the batch, before the first of them. Its time is not before one that a server
// reported as passed: this process knows the servers' time only to some milliseconds.
func (r *run) beginBatch() {
	if len(r.batch.events) == 0 {
		r.batch.durable = r.state.Clone()
		r.batch.startedAt = r.state.Next(max(r.p.cfg.Bus.Millis(), r.now()))
	}
}

// foldAhead folds an event and puts it in the batch.
func (r *run) foldAhead(ev *events.Event) {
	r.batch.bytes += blob.Size(ev.Payload)
	r.state.ApplyUncommitted(ev, r.batch.startedAt)
	r.followOverlay(ev.Payload)
	r.batch.events = append(r.batch.events, *ev)
}

// refuseBatch drops the batch, and the plugin states of its inputs, because an event cannot be stored.
func (r *run) refuseBatch(ctx context.Context, in turn.Input, err error) error {
	r.discard(append(r.batch.inputs, in)...)
	r.rollBack()
	return r.endIfRejected(ctx, in, err)
}

// rollBack drops the batch.
func (r *run) rollBack() {
	if r.stack.Stack != nil {
		r.stack.Discarded(r.batch.states)
	}
	if r.batch.durable != nil {
		r.state = r.batch.durable
		if r.stack.Stack != nil {
			r.stack.FollowOverlay(r.state.Overlay, true)
		}
	}
	r.batch.clear()
}

// flush appends the batch. After a conflict it folds the events of others and steps the same inputs again. The run
// starts no effect before flush returns, so the new state decides about new effects; stepAgain cancels the model calls
// that lost their prompt.
func (r *run) flush(ctx context.Context) error {
	for conflicts := 0; len(r.batch.events) > 0; conflicts++ {
		c := r.commit(r.batch.startedAt, r.batch.events)
		q := r.logEnd.request()
		expected := r.batch.durable.Seq
		undo := r.setClaimEarly(c)
		seq, err := r.p.cfg.Worker.AppendCommit(ctx, c, r.batch.durable, func(signed *events.Commit) (*projector.State, error) {
			c = signed
			err := r.state.Committed(c)
			r.state.SetIncarnation(r.batch.durable.Incarnation()) // of the log that has the commit
			return r.state.Clone(), err
		})
		if err == nil && seq == expected+1 {
			if conflicts > 0 {
				r.p.cfg.Bus.ReleasePriority(r.session)
			}
			r.logEnd.confirm(q)
			r.logCommit(seq, c)
			r.committed(ctx, c)
			return nil
		}
		undo()
		inputs, ahead := r.batch.inputs, r.batch.ahead
		if err == nil { // not observed with one server; possible with three, if a leader is lost meanwhile
			err = fmt.Errorf("append to %s: expected sequence %d, committed as %d", r.session, expected+1, seq)
		}
		r.rollBack()
		if !errors.As(err, new(*events.ConflictError)) {
			r.discard(inputs...)
			return r.endIfRejected(ctx, first(inputs), err)
		}
		r.p.cfg.Bus.RequestPriority(r.session, time.Time{}) // the run goes first: work that is accepted completes before more work is accepted
		if err := r.stepAgain(ctx, inputs, ahead); err != nil {
			return err
		}
	}
	return nil
}

// setClaimEarly sets the run's turn before its claim is appended: another worker may read the claim and send a request
// before the append's response is here. Such requests name only a claim that is in the log, so a failed append does
// no harm.
func (r *run) setClaimEarly(c *events.Commit) (undo func()) {
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.TurnStarted); ok {
			before := r.claimed // written by this goroutine alone
			r.setClaim(attempt{c.Events[i].Turn, p.Attempt})
			return func() { r.setClaim(before) }
		}
	}
	return func() {}
}

func first(inputs []turn.Input) turn.Input {
	if len(inputs) == 0 {
		return nil
	}
	return inputs[0]
}

// commit puts events in an envelope.
func (r *run) commit(at events.Millis, list []events.Event) *events.Commit {
	return &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: r.session, At: at,
		Actor: events.Actor{Kind: events.ActorNode, ID: string(r.p.cfg.ID)}, Cause: string(list[0].Turn), Salt: session.NewSalt(), Events: list,
	}
}

// logCommit logs the kinds of the events without their bodies.
func (r *run) logCommit(seq events.Seq, c *events.Commit) {
	entry := r.p.log.Check(zap.DebugLevel, "committed")
	if entry == nil {
		return
	}
	kinds := make([]string, len(c.Events))
	for i := range c.Events {
		kinds[i] = string(c.Events[i].Kind)
	}
	entry.Write(zap.String("session", string(c.Session)), zap.Uint64("seq", uint64(seq)), zap.Strings("events", kinds))
}

// isRejected reports whether the log rejects the same events every time.
func isRejected(err error) bool {
	return errors.Is(err, events.ErrTooLarge) || errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrInvalidID)
}

// endIfRejected ends the turn if the log rejects what follows from an input of the turn: a retry would append the same. It
// returns any other error unchanged.
func (r *run) endIfRejected(ctx context.Context, in turn.Input, err error) error {
	t := r.state.Turn()
	if _, ends := in.(turn.Broken); in == nil || ends || !isRejected(err) || !r.isOurs(t) {
		return err
	}
	r.cancelEffects(nil)
	r.restoreStack(ctx)
	return r.step(ctx, turn.Broken{Iteration: t.Iteration, Issue: call.IssueOf("runtime", "commit_refused", err)})
}

// committed drops the batch, which the log has now. The state has its events already.
func (r *run) committed(ctx context.Context, c *events.Commit) {
	r.unmarked = true
	trace.Commit(r.p.cfg.Worker, r.batch.durable, c)
	r.batch.clear()
	r.noteProgress(ctx)
	r.stackCommitted(ctx, c)
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.ToolReturned); ok {
			r.notifyRecorded(c.Events[i].Turn, p)
		}
	}
	for _, e := range r.inflight {
		e.ahead = false // the events that it builds on are in the log now
	}
}

// stepAgain folds the events of others and decides again on the same inputs. If a prompt was built ahead of the log and is
// a different one now, its reply is discarded, and a model call for it is cancelled: no history could explain that
// reply. The state needs the call again.
func (r *run) stepAgain(ctx context.Context, inputs []turn.Input, ahead bool) error {
	if err := follow.SyncAfterConflict(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.state); err != nil {
		return err
	}
	old := r.stack.Stack
	if old != nil {
		if err := r.openStack(ctx); err != nil {
			return err
		}
	}
	for _, in := range inputs {
		if _, claims := in.(turn.Claim); claims {
			kept := slices.DeleteFunc(in.Additional(), isOptions)
			if r.stack.Stack != old { // its states are gone with it
				kept = slices.DeleteFunc(kept, isState)
			}
			r.stack.unrecorded = append(kept, r.stack.unrecorded...)
			return nil // advance decides on the claim again
		}
		if !r.isOurs(r.state.Turn()) {
			r.discard(inputs...)
			return fmt.Errorf("session %s: %w", r.session, wake.ErrSuperseded)
		}
		if digest := in.PromptDigest(); ahead && digest != "" && !r.hasPrompt(digest) {
			r.discard(in)
			continue
		}
		out, err := turn.Step(r.state, in)
		if errors.Is(err, turn.ErrStale) {
			r.discard(in)
			continue
		}
		if err != nil {
			return err
		}
		if err := r.add(ctx, in, out.Events); err != nil {
			return err
		}
		r.batch.ahead = ahead
	}
	r.restoreStack(ctx)
	for id, e := range r.inflight {
		if e.ahead && !r.hasPrompt(e.prompt) {
			e.cancel(nil)
			delete(r.inflight, id)
		}
	}
	return nil
}

// hasPrompt reports whether the prompt of the state has that digest.
func (r *run) hasPrompt(digest string) bool {
	p, err := r.state.Prompt()
	return err == nil && p.Ref.Digest == digest
}
