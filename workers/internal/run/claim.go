package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// claimTurn claims the next turn: the first of the queue, or one for the input of a monitor. If a turn runs, whose worker does not run it,
// it takes that over. It ends a turn whose attempts all failed.
func (r *run) claimTurn(ctx context.Context) error {
	t := r.m.State.Turn()
	id, _ := turn.Upcoming(r.m.State)
	suspicious, input := r.suspicious, events.TurnInput{}
	if t != nil {
		id, suspicious, input = t.ID, r.suspicious || t.Starts > 0, t.Input
	} else if len(r.m.State.Queue) > 0 {
		input = r.m.State.Queue[0].Input
	}
	if id != "" {
		if err := r.attempt(ctx, r.turnKey(id), t, suspicious); err != nil {
			return err
		}
		if r.trial.Exhausted() {
			return r.m.GiveUp(r.trial.Issue())
		}
	}
	claim, err := r.claim(ctx, input)
	switch {
	case err != nil:
		return err
	case t == nil:
		if claim.Problem, err = r.checkInput(ctx, input); err == nil {
			err = r.fold(ctx, r.toldEvents())
		}
		if err != nil {
			return err
		}
	case !claim.Refused.IsZero():
		return r.m.GiveUp(claim.Refused)
	}
	r.m.Input(claim)
	return nil
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
	entry, err := r.stack.Catalog(&r.m.State.Catalog)
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
	config, err := r.p.cfg.Worker.Locked(r.m.State.Config)
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
	if r.m.State.Turn() == nil {
		if err := r.stack.StartTurn(); err != nil {
			r.p.warn(r.session, err)
		}
	}
	list := append(r.unsaved(), r.declared()...)
	if !config.Equal(r.m.State.Config) {
		list = append(list, &events.SessionConfigured{Config: config})
	}
	return list
}

// declared are the monitors that the plugins declare and the history lacks, and the tasks of those that begin with
// the session.
func (r *run) declared() []events.Payload {
	list, err := task.Declare(r.m.State, r.stack.Monitors())
	if err != nil {
		r.p.warn(r.session, err)
	}
	list = task.OnBehalf(r.m.State, list, "")
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
