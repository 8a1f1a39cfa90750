package plugincheck

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/session/plugin/wire"
)

// term is the term of the main program, as its last sign of life has it.
func (s *setting) term() string {
	list := s.signsOf(s.instance())
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].Term
}

// foreign sends the program calls, hooks and starts of sessions that are for another program with its id: it answers none. It answers the
// same call with its own term.
func (s *setting) foreign(ctx context.Context) error {
	if s.term() == "" {
		return errors.New("its signs of life have no term, want that of the answer to its registration")
	}
	inbox := s.conn.NewRespInbox()
	answers, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = answers.Unsubscribe() }()
	for verb, message := range map[string]any{
		wire.VerbCall:         &wire.Call{CallID: wire.CallID{Session: "s", Call: "foreign"}, Tool: "no_such_tool", Args: jsonOf(object{}), Term: "another"},
		wire.VerbHook:         &wire.HookCall{Hook: "no_such_hook", Point: "before_turn", Invocation: "foreign", Session: "s", DeadlineMS: 5000, Term: "another"},
		wire.VerbSessionStart: &wire.SessionStart{Session: "s", Epoch: 1, Term: "another"},
	} {
		if len(s.registered()[0].Manifest.Hooks) == 0 && verb == wire.VerbHook || s.registered()[0].Manifest.Scope != wire.ScopeSession && verb == wire.VerbSessionStart {
			continue // it need not listen
		}
		if err := s.conn.PublishRequest(s.subject(verb), inbox, jsonOf(message)); err != nil {
			return err
		}
	}
	a, err := s.call(ctx, &wire.Call{CallID: wire.CallID{Call: "foreign"}, Tool: "no_such_tool", Term: s.term()}, nil)
	if err == nil && (a.last.Error == nil || a.last.Error.Code != wire.CodeUnknownTool) {
		err = fmt.Errorf("a call with its own term: answered %s, want an error %s", a, wire.CodeUnknownTool)
	}
	if err != nil {
		return err
	}
	if m, err := answers.NextMsg(late); err == nil {
		return fmt.Errorf("a message with another term: answered %.200s after %s, want no answer", m.Data, late)
	}
	return nil
}
