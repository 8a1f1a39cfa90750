package plugincheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

// answers are what an instance answered to a call.
type answers struct {
	list    []wire.Progress
	last    wire.Progress
	outcome *wire.Outcome // of last, or of its pieces
}

func (a *answers) String() string {
	text := string(jsonOf(a.last))
	return text[:min(len(text), 300)]
}

// call sends a call to the main program as a node does, and collects the answers. Ids that are empty are filled in.
// each, if set, gets each answer as it comes.
func (s *setting) call(ctx context.Context, in *wire.Call, each func(p *wire.Progress)) (*answers, error) {
	if in.Call == "" {
		s.mu.Lock()
		s.calls++
		in.Call = events.EffectID(fmt.Sprint("check", s.calls))
		s.mu.Unlock()
	}
	if in.Key == "" {
		in.Key = string(in.Call)
	}
	in.Session, in.Turn, in.Model = "s", "t", "m"
	if in.Args == nil {
		in.Args = json.RawMessage(`{}`)
	}
	inbox := s.conn.NewRespInbox()
	sub, err := s.conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.conn.PublishRequest(s.subject(wire.VerbCall), inbox, jsonOf(in)); err != nil {
		return nil, err
	}
	a := &answers{}
	for !a.last.Last() {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return a, fmt.Errorf("after %d answers to a call: %w", len(a.list), context.Cause(ctx))
		}
		a.last = wire.Progress{}
		if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
			return a, errors.New("nothing is subscribed to the subject of calls")
		}
		if err := json.Unmarshal(m.Data, &a.last); err != nil {
			return a, fmt.Errorf("an answer to a call is no Progress: %w", err)
		}
		a.list = append(a.list, a.last)
		if each != nil {
			each(&a.last)
		}
	}
	return a, a.assemble()
}

// assemble parses an outcome in pieces.
func (a *answers) assemble() error {
	if a.outcome = a.last.Outcome; a.last.Pieces == 0 {
		return nil
	}
	var data []byte
	for i := range a.list {
		if p := a.list[i].Piece; p != nil {
			if len(p.Data) > wire.MaxInlineBytes {
				return fmt.Errorf("piece %d has %d bytes, limit is %d", p.N, len(p.Data), wire.MaxInlineBytes)
			}
			data = append(data, p.Data...)
		}
	}
	a.outcome = new(wire.Outcome)
	if err := json.Unmarshal(data, a.outcome); err != nil {
		return fmt.Errorf("the %d pieces are no outcome: %w", a.last.Pieces, err)
	}
	return nil
}

// result is the outcome of a call, which must have one.
func (s *setting) result(ctx context.Context, tool string, args any) (*wire.Outcome, error) {
	a, err := s.call(ctx, &wire.Call{Tool: tool, Args: jsonOf(args)}, nil)
	if err == nil && a.outcome == nil {
		err = fmt.Errorf("answered %s, want an outcome", a)
	}
	if err != nil {
		return nil, err
	}
	return a.outcome, nil
}

// ask sends a request to the main program, and parses its answer.
func ask[Out any](ctx context.Context, s *setting, verb string, in any) (*Out, error) {
	m, err := s.conn.RequestWithContext(ctx, s.subject(verb), jsonOf(in))
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("nothing is subscribed to %s", s.subject(verb))
	}
	if err != nil {
		return nil, fmt.Errorf("no answer at %s: %w", verb, err)
	}
	out := new(Out)
	return out, json.Unmarshal(m.Data, out)
}

// tell sends a message without an answer to the main program.
func (s *setting) tell(verb string, in any) error {
	return errors.Join(s.conn.Publish(s.subject(verb), jsonOf(in)), s.conn.FlushTimeout(time.Second))
}

// hook calls the hook of the plugin at a point.
func (s *setting) hook(ctx context.Context, point string, in wire.HookCall) (*wire.HookResult, error) {
	for _, h := range s.registered()[0].Manifest.Hooks {
		if h.Point == point {
			in.Hook, in.Point, in.Invocation, in.Session, in.Turn, in.DeadlineMS = h.Name, point, point, "s", "t", 5000
			return ask[wire.HookResult](ctx, s, wire.VerbHook, &in)
		}
	}
	return nil, fmt.Errorf("the manifest has no hook at %s", point)
}
