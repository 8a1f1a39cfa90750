package workers

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
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/trace"
)

// gathering is the commit that a run is putting together. Its events are
// folded ahead into the run's state; durable is the state without them.
type gathering struct {
	claimed bool // the run holds the running turn, or is about to
	ahead   bool // a reply among the inputs answers a prompt that was built on events gathered before it
	events  []events.Event
	inputs  []turn.Input // what the events follow from, to be stepped again after a conflict
	at      events.Millis
	bytes   int
	durable *projector.State
	linger  *time.Timer
}

func (g *gathering) timer() <-chan time.Time {
	if g.linger == nil {
		return nil
	}
	return g.linger.C
}

func (g *gathering) clear() {
	if g.linger != nil {
		g.linger.Stop()
	}
	*g = gathering{claimed: g.claimed}
}

// flushBytes is how much a lingering commit gathers before it is written.
const flushBytes = 512 << 10

// step decides and gathers; what must not wait is appended before it returns.
func (r *run) step(ctx context.Context, in turn.Input) error {
	out, err := r.decide(ctx, in)
	if err != nil {
		return err
	}
	if out.Linger && r.w.cfg.Linger > 0 && r.g.bytes < flushBytes {
		if r.g.linger == nil {
			r.g.linger = time.NewTimer(r.w.cfg.Linger)
		}
		return nil
	}
	return r.flush(ctx)
}

// take decides and gathers; a flush follows.
func (r *run) take(ctx context.Context, in turn.Input) error {
	_, err := r.decide(ctx, in)
	return err
}

func (r *run) decide(ctx context.Context, in turn.Input) (turn.Output, error) {
	out, err := turn.Step(r.state, in)
	if err != nil {
		return out, err
	}
	return out, r.gather(ctx, in, out.Events)
}

// record appends events that follow from no input of the machine.
func (r *run) record(ctx context.Context, in turn.Input, list []events.Event) error {
	if err := r.gather(ctx, in, list); err != nil {
		return err
	}
	return r.flush(ctx)
}

func (r *run) gather(ctx context.Context, in turn.Input, list []events.Event) error {
	if len(r.g.events) == 0 {
		r.g.durable = r.state.Clone()
		r.g.at = events.MillisOf(time.Now())
	}
	for i := range list {
		if r.stale(&list[i]) {
			continue
		}
		payload, err := session.Spill(ctx, r.w.blobs, list[i].Payload)
		if err != nil {
			r.forsake(append(r.g.inputs, in)...)
			r.rollBack()
			return err
		}
		list[i].Payload = payload
		r.g.bytes += session.BodyBytes(payload)
		r.state.Ahead(&list[i], r.g.at)
		r.g.events = append(r.g.events, list[i])
	}
	if in != nil {
		r.g.inputs = append(r.g.inputs, in)
	}
	return nil
}

// rollBack drops what was gathered.
func (r *run) rollBack() {
	if r.g.durable != nil {
		r.state = r.g.durable
	}
	r.g.clear()
}

// flush appends what was gathered. After a conflict it folds what others
// appended and steps the same inputs again; nothing was started in between
// that the new state does not owe as well.
func (r *run) flush(ctx context.Context) error {
	for len(r.g.events) > 0 {
		c := &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: r.job.Session, At: r.g.at,
			Actor: events.Actor{Kind: events.ActorNode, ID: string(r.w.cfg.ID)}, Cause: string(r.turnID()),
			Events: r.g.events,
		}
		began := time.Now() // an answer that is late is of a state that may be old
		seq, err := r.w.cfg.Bus.Log().Append(ctx, c, events.At(r.g.durable.Seq))
		if err == nil && seq == r.g.durable.Seq+1 {
			r.current = began
			r.logCommit(seq, c)
			r.landed(ctx, c)
			return nil
		}
		inputs, ahead := r.g.inputs, r.g.ahead
		if err == nil { // never seen of one server; of three, where a leader is lost in between, it is not ruled out
			err = fmt.Errorf("append to %s: expected sequence %d, landed as %d", r.job.Session, r.g.durable.Seq+1, seq)
		}
		r.rollBack()
		if !errors.As(err, new(*events.ConflictError)) {
			r.forsake(inputs...)
			return r.giveUp(ctx, err)
		}
		if err := r.redo(ctx, inputs, ahead); err != nil {
			return err
		}
	}
	return nil
}

// logCommit names what happened, and nothing of what was said.
func (r *run) logCommit(seq events.Seq, c *events.Commit) {
	entry := r.w.log.Check(zap.DebugLevel, "committed")
	if entry == nil {
		return
	}
	kinds := make([]string, len(c.Events))
	for i := range c.Events {
		kinds[i] = string(c.Events[i].Kind)
	}
	entry.Write(zap.String("session", string(c.Session)), zap.Uint64("seq", uint64(seq)), zap.Strings("events", kinds))
}

// hopeless reports whether the same events would be refused for ever.
func hopeless(err error) bool {
	return errors.Is(err, events.ErrTooLarge) || errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrInvalidID)
}

// giveUp ends the turn where no log will ever take what it came to, as trying
// again would come to the same. Whatever else the error is, it stays one.
func (r *run) giveUp(ctx context.Context, err error) error {
	t := r.state.Turn()
	if !hopeless(err) || t == nil || t.Worker != r.w.cfg.ID {
		return err
	}
	for id, f := range r.flights {
		f.cancel()
		delete(r.flights, id)
	}
	r.settleStack(ctx)
	return r.step(ctx, turn.Broken{Iteration: t.Iteration, Issue: issueOf("runtime", "commit_refused", err)})
}

// landed makes the gathered commit history.
func (r *run) landed(ctx context.Context, c *events.Commit) {
	trace.Commit(r.w.host, r.g.durable, c)
	r.state.Landed()
	r.g.clear()
	r.stackLanded(ctx, c)
	for _, f := range r.flights {
		f.ahead = false // what it builds on is in the log now
	}
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.TurnCompleted); ok {
			_ = r.w.cfg.Bus.MarkDirty(r.job.Session)
			if p.End != events.EndFailed { // nothing of what it came to was
				r.tellPersisted(c.Events[i].Turn)
			}
			return
		}
	}
}

// redo folds the tail and decides again on the same inputs. What answers, or
// is about to answer, a prompt that was built ahead of the log and that came
// to be another one is given up, as no history could explain it. The state
// owes it again.
func (r *run) redo(ctx context.Context, inputs []turn.Input, ahead bool) error {
	if err := follow.Sync(ctx, r.w.cfg.Bus.Log(), r.state); err != nil {
		return err
	}
	if err := r.openStack(ctx); err != nil {
		return err
	}
	for _, in := range inputs {
		if _, claims := in.(turn.Claim); claims || !r.g.claimed {
			r.g.claimed = false // advance decides anew, also what it answers
			r.stack.beside = append(slices.DeleteFunc(besideOf(in), isOptions), r.stack.beside...)
			return nil
		}
		if t := r.state.Turn(); t == nil || t.Worker != r.w.cfg.ID {
			r.forsake(inputs...)
			return fmt.Errorf("session %s: %w", r.job.Session, ErrSuperseded)
		}
		if digest := promptOf(in); ahead && digest != "" && !r.prompts(digest) {
			r.forsake(in)
			continue
		}
		out, err := turn.Step(r.state, in)
		if errors.Is(err, turn.ErrStale) {
			r.forsake(in)
			continue
		}
		if err != nil {
			return err
		}
		if err := r.gather(ctx, in, out.Events); err != nil {
			return err
		}
		r.g.ahead = ahead
	}
	r.settleStack(ctx)
	for id, f := range r.flights {
		if f.ahead && !r.prompts(f.prompt) {
			f.cancel()
			delete(r.flights, id)
		}
	}
	return nil
}

// promptOf is the digest of the prompt that an input answers; empty where it answers none.
func promptOf(in turn.Input) string {
	switch in := in.(type) {
	case turn.Reply:
		return in.Prompt.Digest
	case turn.Failure:
		return in.Prompt.Digest
	}
	return ""
}

// prompts reports whether the state gives the prompt of that digest.
func (r *run) prompts(digest string) bool {
	p, err := r.state.Prompt()
	return err == nil && p.Ref.Digest == digest
}
