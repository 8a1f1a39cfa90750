package run

import (
	"context"
	"time"

	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/wake"
)

// advance does what the machine says until the run has to wait. done: the session needs nothing. When ctx ends it starts
// nothing more: a call that was cancelled with ctx may have completed without a result, and the state still needs it.
func (r *run) advance(ctx context.Context) (done bool, err error) {
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if s := r.m.Durable(); s.Seq != r.wokenSeq { // the events folded since may cancel tasks without a hint from their host
			r.p.cfg.Worker.WakeCancelsToPassOn(s)
			r.wokenSeq = s.Seq
		}
		rd := r.ready(ctx)
		if r.until = rd.Until; rd.Do == work.Wait || rd.Do == work.End {
			return rd.Do == work.End, nil
		}
		if err := r.do(ctx, &rd); err != nil {
			return false, err
		}
	}
}

// do does what the machine says.
func (r *run) do(ctx context.Context, rd *work.Ready) error {
	switch rd.Do {
	case work.Add:
		return r.add(ctx, rd)
	case work.Append:
		return r.append(ctx, rd)
	case work.Reread:
		return r.rereadLog(ctx, rd.Inputs)
	case work.Read:
		return r.readLog(ctx)
	case work.Look:
		last, err := r.p.cfg.Bus.Log().Last(ctx, r.session)
		r.m.Looked(last, err, time.Now())
	case work.Ask:
		return r.askWorker(ctx, r.m.State.Turn())
	case work.Claim:
		return r.claimTurn(ctx)
	case work.Open:
		return r.reopen(ctx, rd.Needs)
	case work.Start:
		return r.start(ctx, rd.Needs)
	case work.Answer:
		r.answer(rd.Err)
	case work.Branch:
		return r.branchOff(ctx, *rd.Queued)
	case work.Notify:
		return r.startEndCalls(ctx)
	case work.Drop:
		r.dropTurn(ctx, wake.ErrSuperseded)
	case work.HandOver:
		return errPoolStops
	case work.Yield:
		return r.yield()
	case work.Fail:
		return rd.Err
	case work.Wait, work.End: // of advance
	}
	return nil
}

// end ends a run whose session needs nothing, unless a wake arrived meanwhile.
func (r *run) end(ctx context.Context) (over bool, err error) {
	if err := r.p.cfg.Worker.ChargeChild(ctx, r.m.State); err != nil {
		return false, err
	}
	if due := turn.Due(r.m.State); due != 0 {
		_ = r.p.cfg.Bus.SetTimer(r.session, due)
	}
	r.closeStack() // the session's next run opens it again
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	if r.m.HasNews(r.arrivals) {
		return false, nil
	}
	r.p.endLocked(r)
	return true, nil
}
