package stdio

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

var (
	_ remote.Program        = (*Adapter)(nil)
	_ remote.SessionStarter = (*Adapter)(nil)
	_ remote.Idler          = (*Adapter)(nil)
)

// slot finds where the children of a session run. Errors: errNotPlaced.
func (a *Adapter) slot(session events.SessionID) (*slot, error) {
	if a.manifest.Scope != wire.ScopeSession {
		session = ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.slots[session]
	if s == nil {
		return nil, errNotPlaced
	}
	return s, nil
}

// Call implements [remote.Program].
func (a *Adapter) Call(ctx context.Context, in *wire.Call, on remote.Caller) *wire.Outcome {
	s, err := a.slot(in.Session)
	for err == nil {
		var c *child
		if c, err = a.openIn(ctx, s); err != nil {
			break
		}
		outcome, sent := c.run(ctx, in, on)
		if errors.Is(sent, errNotOpen) {
			continue // it ended before it had the call
		}
		if outcome == nil {
			return died(a.repeatable[in.Tool] && !in.Once, c.reason())
		}
		return outcome
	}
	if _, ok := errors.AsType[*remote.Cancelled](context.Cause(ctx)); ok {
		return &wire.Outcome{Cancelled: true, Text: "The call was cancelled before the program had it."}
	}
	return notStarted(err)
}

// Hook implements [remote.Program].
func (a *Adapter) Hook(ctx context.Context, in *wire.HookCall) *wire.HookResult {
	session := in.Session
	if in.Epoch == 0 {
		session = ""
	}
	s, err := a.slot(session)
	for err == nil {
		var c *child
		if c, err = a.openIn(ctx, s); err != nil {
			break
		}
		var result *wire.HookResult
		if result, err = c.hook(ctx, in); err == nil {
			return result
		} else if errors.Is(err, errNotOpen) {
			err = nil
		}
	}
	code := wire.CodeInternal
	if errors.Is(err, errNotPlaced) {
		code = wire.CodeNotOwner
	}
	return &wire.HookResult{Error: &wire.Error{Code: code, Message: err.Error()}}
}

// StartSession implements [remote.SessionStarter]. A start with another epoch ends the child of the one before. Errors: a
// [*wire.Error] of the program.
func (a *Adapter) StartSession(ctx context.Context, start wire.SessionStart) error {
	if a.manifest.Scope != wire.ScopeSession {
		return &wire.Error{Code: wire.CodeBadRequest, Message: "the plugin has no scope session"}
	}
	s, old := a.placed(&start)
	if old != nil {
		old.end()
		if c := old.current(); c != nil {
			<-c.gone // 4 s at most
		}
	}
	_, err := a.openIn(ctx, s)
	return err
}

// placed is the slot of a placement. old is that of the placement before, if another one follows it.
func (a *Adapter) placed(start *wire.SessionStart) (s, old *slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s = a.slots[start.Session]; s != nil && start.Epoch == s.start.Epoch {
		return s, nil
	}
	a.forgetLocked()
	old, s = s, newSlot(start)
	a.slots[start.Session] = s
	return s, old
}

// forgetLocked makes room for one more session. Those without a child are dropped: their calls fail until the next start.
func (a *Adapter) forgetLocked() {
	for session, s := range a.slots {
		if len(a.slots) < wire.MaxSessions {
			return
		}
		if c := s.current(); session != "" && (c == nil || !c.isOpen()) {
			s.end()
			delete(a.slots, session)
		}
	}
}

// IdleSession implements [remote.Idler]. The next call of the session starts a child, also one that comes now.
func (a *Adapter) IdleSession(ctx context.Context, session events.SessionID) remote.IdleAction {
	s, err := a.slot(session)
	if err != nil {
		return remote.IdleEnd
	}
	if s.start == nil || s.lock(ctx) != nil {
		return remote.IdleKeep
	}
	defer s.unlock()
	if c := s.current(); c != nil && c.isOpen() && !c.retire(s.start, 0) { // the node knows for how long
		return remote.IdleKeep
	}
	return remote.IdleEnd
}
