package run

import (
	"context"
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
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/trace"
)

// add adds events to the batch.
func (r *run) add(ctx context.Context, rd *work.Ready) error {
	if rd.Ran != nil {
		r.abandoned = r.onAbandoned(rd.Ran)
	}
	if err := r.fold(ctx, rd.Events); err != nil {
		err = r.m.Failed(err)
		r.rolledBack(ctx)
		return err
	}
	r.m.Added()
	return nil
}

// fold folds events ahead and puts them in the batch, with large bodies in blobs.
func (r *run) fold(ctx context.Context, list []events.Event) error {
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
		if list[i].Payload, err = blob.Spill(ctx, r.p.cfg.Calls.Blobs, list[i].Payload); err != nil {
			return err
		}
		r.m.Fold(&list[i], blob.Size(list[i].Payload))
		r.followOverlay(list[i].Payload)
	}
	return nil
}

// rolledBack drops what plugins know of a batch that was dropped.
func (r *run) rolledBack(ctx context.Context) {
	if r.stack.Stack != nil {
		r.stack.Discarded(r.states)
		r.stack.FollowOverlay(r.m.State.Overlay, true)
	}
	r.states, r.abandoned = nil, nil
	r.discard(ctx, r.m.Discarded())
}

// append appends the batch.
func (r *run) append(ctx context.Context, rd *work.Ready) error {
	c, durable := r.commit(rd.At, rd.Events), r.m.Durable()
	seq, err := r.p.cfg.Worker.AppendCommit(ctx, c, durable, func(signed *events.Commit) (*projector.State, error) {
		c = signed
		return r.m.Signed(c)
	})
	committed, err := r.m.Appended(seq, err)
	if !committed {
		r.rolledBack(ctx)
		return err
	}
	if r.conflicted {
		r.p.cfg.Bus.ReleasePriority(r.session)
		r.conflicted = false
	}
	r.logCommit(seq, c)
	r.committed(ctx, durable, c)
	return nil
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

// committed tells plugins, programs and the trial of a commit of the batch.
func (r *run) committed(ctx context.Context, durable *projector.State, c *events.Commit) {
	r.unmarked = true
	trace.Commit(r.p.cfg.Worker, durable, c)
	r.noteProgress(ctx)
	r.stackCommitted(ctx, c)
	for i := range c.Events {
		if p, ok := c.Events[i].Payload.(*events.ToolReturned); ok {
			r.notifyRecorded(c.Events[i].Turn, p)
		}
	}
	for _, notify := range r.abandoned {
		notify()
	}
	r.states, r.abandoned = nil, nil
}

// rereadLog folds the events of others, with which an append conflicted. The run goes first then: work that is accepted completes
// before more work is accepted. The additional events of a claim are for the next one.
func (r *run) rereadLog(ctx context.Context, inputs []turn.Input) error {
	r.conflicted = true
	r.p.cfg.Bus.RequestPriority(r.session, time.Time{})
	if err := follow.SyncAfterConflict(ctx, r.p.cfg.Bus.Log(), r.p.cfg.Bus, r.m.State); err != nil {
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
		}
	}
	r.m.Reread()
	return nil
}
