package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// fairTurns is the number of turns that a run does in a row while its pool is full.
const fairTurns = 8

// claimNext starts the next turn: the first of the queue, or one for the input of a monitor.
func (r *run) claimNext(ctx context.Context) error {
	switch {
	case r.p.draining.Load():
		return r.endForStop(ctx)
	case r.reachedFairShare():
		return r.yield(ctx)
	}
	if id, _ := turn.Upcoming(r.state); id != "" {
		if err := r.attempt(ctx, r.turnKey(id), nil, r.suspicious); err != nil {
			return err
		}
		if r.trial.Exhausted() {
			return r.giveUp(ctx)
		}
	}
	var input events.TurnInput
	if len(r.state.Queue) > 0 {
		input = r.state.Queue[0].Input
	}
	claim, err := r.claim(ctx, input)
	if err != nil {
		return err
	}
	if claim.Problem, err = r.checkInput(ctx, input); err != nil {
		return err
	}
	r.turns++
	if err := r.add(ctx, nil, r.toldEvents()); err != nil {
		return err
	}
	return unlessStale(r.step(ctx, claim))
}

// unlessStale drops the error of a decision on a turn that changed meanwhile.
func unlessStale(err error) error {
	if errors.Is(err, turn.ErrStale) {
		return nil
	}
	return err
}

// transferOrTakeOver handles a turn that this run has not claimed: it transfers its wake to the worker that runs the turn, or takes
// the turn over.
func (r *run) transferOrTakeOver(ctx context.Context, t *projector.Turn) (pace, error) {
	if len(r.inflight) > 0 || len(r.batch.events) > 0 {
		return paceContinue, fmt.Errorf("turn %s: %w", t.ID, wake.ErrSuperseded)
	}
	switch {
	case t.Worker != r.p.cfg.ID && r.runsElsewhere(ctx, t):
		return r.endTransferred(ctx)
	case r.p.draining.Load() && len(r.endCalls.running) > 0:
		return paceWait, nil // the calls about ended turns would be cut off
	case r.p.draining.Load():
		return paceContinue, r.endForStop(ctx)
	}
	if r.suspicious { // one suspect at a time: the calls about ended turns first
		if err := r.startEndCalls(ctx); err != nil || len(r.endCalls.running) > 0 {
			return paceWait, err
		}
	}
	return paceContinue, r.takeOver(ctx, t)
}

// takeOver claims a turn whose worker does not run it, or ends one whose attempts all failed.
func (r *run) takeOver(ctx context.Context, t *projector.Turn) error {
	if err := r.attempt(ctx, r.turnKey(t.ID), t, r.suspicious || t.Starts > 0); err != nil {
		return err
	}
	if r.trial.Exhausted() {
		return r.giveUp(ctx)
	}
	claim, err := r.claim(ctx, t.Input)
	if err != nil {
		return err
	}
	if !claim.Refused.IsZero() {
		return r.fail(ctx, claim.Refused)
	}
	return unlessStale(r.step(ctx, claim))
}

// fail ends the running turn, or the next one, before this run claims it.
func (r *run) fail(ctx context.Context, issue events.Issue) error {
	list, err := turn.GiveUp(r.state, issue)
	if err != nil {
		return unlessStale(err)
	}
	return r.record(ctx, list)
}

// runsElsewhere asks the worker of a turn whether it runs the turn. If it does, that worker owns the wake from now
// on.
func (r *run) runsElsewhere(ctx context.Context, t *projector.Turn) bool {
	r.p.mu.Lock()
	r.transferred = r.wake
	r.p.mu.Unlock()
	q := wake.PeerRequest{Session: r.session, Turn: t.ID, Attempt: t.Attempt, Class: r.class}
	if r.transferred != nil {
		q.Class, q.Handle, q.Due, q.Repair = r.transferred.Class, r.transferred.Handle(), r.transferred.Due, r.transferred.Repair
	}
	return r.p.cfg.Peers.Request(ctx, t.Worker, q)
}

// giveUp ends a turn whose attempts all failed, with the reason.
func (r *run) giveUp(ctx context.Context) error {
	err := r.fail(ctx, r.trial.Issue())
	if err == nil {
		r.endTrial(ctx)
	}
	return err
}

// reachedFairShare reports whether the run has done [fairTurns] turns and the pool is full.
func (r *run) reachedFairShare() bool {
	if r.turns < fairTurns {
		return false
	}
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.capacityLocked(r.class) <= 0
}

// claim is the worker's claim of the next turn, or of a turn that it takes over. If this worker cannot build the
// session's plugins, or lacks its environment, it leaves the session to other workers for [Config.Patience].
func (r *run) claim(ctx context.Context, in events.TurnInput) (turn.Claim, error) {
	if err := r.openForTurn(ctx); err != nil {
		return turn.Claim{}, err
	}
	c := turn.Claim{Worker: r.p.cfg.ID}
	if r.stack.Stack == nil {
		c.Refused = r.stack.issue
		return c, r.checkPatience()
	}
	r.p.forgetUnbuilt(r.session)
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil {
		c.Refused = call.IssueOf("plugin", "tool_catalog", err)
		return c, nil
	}
	c.Tools, c.Points = entry.Tools, r.stack.Points()
	if c.Refused, err = r.protocolIssue(ctx, in); err != nil {
		return c, err
	}
	if c.Refused.IsZero() {
		c.Refused = r.providerIssue()
	}
	config, locked := r.lockedConfig(in)
	if c.Refused.IsZero() {
		c.Refused = locked
	}
	if c.Refused.IsZero() {
		c.Extra = r.eventsOfClaim(config)
	}
	return c, nil
}

// protocolIssue is why the session's protocol refuses an input, without the options that the operator locked. An input
// whose bodies are missing or too large is not refused here: checkInput reports the part.
func (r *run) protocolIssue(ctx context.Context, in events.TurnInput) (events.Issue, error) {
	account := r.p.cfg.Calls.Memory.Account(string(r.session), elsewhereWait)
	defer account.Close()
	ctx = account.In(ctx)
	in.Plugins = r.p.cfg.Worker.OpenOptions(in.Plugins)
	if r.stack.OptionsLocked() {
		in.Options = nil
	}
	in, err := blob.FillInput(ctx, r.p.cfg.Calls.Blobs, in)
	switch {
	case errors.Is(err, bus.ErrNotFound), errors.Is(err, events.ErrTooLarge):
		return events.Issue{}, nil
	case errors.Is(err, api.ErrMemory):
		return events.Issue{}, fmt.Errorf("%w: %w", errElsewhere, err)
	case err != nil:
		return events.Issue{}, err
	}
	if err := r.stack.Protocol().ValidateTurn(ctx, in); err != nil {
		return call.IssueOf("protocol", "protocol_turn_extension", err), nil
	}
	return events.Issue{}, nil
}

// lockedConfig is the session's configuration under the operator's locks, and why they refuse it or the one of the turn.
func (r *run) lockedConfig(in events.TurnInput) (events.Config, events.Issue) {
	config, err := r.p.cfg.Worker.Locked(r.state.Config)
	if err == nil {
		_, err = r.p.cfg.Worker.Locked(in.Generation.Over(config))
	}
	if err != nil {
		code, _ := api.Code(err)
		return config, call.IssueOf("session", code, err)
	}
	return config, events.Issue{}
}

// eventsOfClaim are the additional events of a claim that is not refused. A claim that starts a turn notifies the
// plugins of the start.
func (r *run) eventsOfClaim(config events.Config) []events.Payload {
	if r.state.Turn() == nil {
		if err := r.stack.StartTurn(); err != nil {
			r.p.warn(r.session, err)
		}
	}
	list := append(r.unsaved(), r.declared()...)
	if !config.Equal(r.state.Config) {
		list = append(list, &events.SessionConfigured{Config: config})
	}
	return list
}

// declared are the monitors that the plugins declare and the history lacks, and the tasks of those that begin with
// the session.
func (r *run) declared() []events.Payload {
	list, err := task.Declare(r.state, r.stack.Monitors())
	if err != nil {
		r.p.warn(r.session, err)
	}
	list = task.OnBehalf(r.state, list, "")
	payloads := make([]events.Payload, len(list))
	for i := range list {
		payloads[i] = list[i].Payload
	}
	return payloads
}

// checkPatience returns nil when this worker has been unable to run the session for [Config.Patience], else errElsewhere.
func (r *run) checkPatience() error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	since, known := r.p.unbuilt[r.session]
	if !known {
		since = time.Now()
		r.p.unbuilt[r.session] = since
	}
	if time.Since(since) < r.p.cfg.Patience {
		return fmt.Errorf("%w: %s", errElsewhere, r.stack.issue.Message)
	}
	delete(r.p.unbuilt, r.session)
	return nil
}

// forgetUnbuilt deletes the time since which a session could not run here.
func (p *Pool) forgetUnbuilt(id events.SessionID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unbuilt, id)
}

// checkInput reports a part of an input whose body is missing or too large.
func (r *run) checkInput(ctx context.Context, in events.TurnInput) (events.Issue, error) {
	blobs := blob.Bounded(r.p.cfg.Calls.Blobs)
	for i, p := range in.Parts {
		if p.Blob.IsZero() {
			continue
		}
		why := ""
		switch _, err := blobs.Blob(ctx, p.Blob); {
		case errors.Is(err, bus.ErrNotFound):
			why = fmt.Sprintf("body %s does not exist", p.Blob.Digest)
		case errors.Is(err, events.ErrTooLarge):
			why = err.Error()
		case err != nil:
			return events.Issue{}, err
		default:
			continue
		}
		return events.Issue{Kind: "input_validation", Code: "invalid_turn_input", Message: fmt.Sprintf("parts[%d]: %s", i, why)}, nil
	}
	return events.Issue{}, nil
}
