package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// carried is what came of a list of directives.
type carried struct {
	decisions []events.Decision
	messages  []events.Message // enqueued, the plugin as their origin
	abort     *events.Issue    // the last one counts
	args      json.RawMessage  // replaced; the last one counts
	answer    *plugin.Result   // in the call's place; the last one counts
	ask       string
	asker     string
	within    time.Duration // for an answer; 0: for ever
}

// instead is what stands in the call's place, nil where the call's own does: an abort is a failure of that class.
func (c *carried) instead(class string) *events.ToolResult {
	switch {
	case c.abort != nil:
		return &events.ToolResult{Outcome: events.OutcomeFailure, Class: class, Code: c.abort.Code, Text: "[failed] " + c.abort.Message}
	case c.answer == nil:
		return nil
	case c.answer.Pending:
		return failed(0, plugin.ClassInternal, plugin.CodePendingShort, errPendingShort)
	}
	r := resultOf(0, *c.answer)
	return &r
}

var errPendingShort = errors.New("a hook answered the call with a pending result")

// question is what is asked about a call.
func (c *carried) question(call *turn.Call) *events.ToolApprovalAsked {
	asked := &events.ToolApprovalAsked{Effect: call.Effect, Tool: call.Tool, Args: call.Args, Plugin: c.asker, Question: clip(c.ask)}
	if c.within > 0 {
		asked.Until = events.MillisOf(time.Now().Add(c.within))
	}
	return asked
}

// carryOut does what directives ask for, in order. They were checked as a
// whole before. What it creates has names that follow from the effect, so that
// an effect which runs again creates nothing twice. An error is a session that
// could not be created; nothing after it is done.
func (s *seen) carryOut(ctx context.Context, effect events.EffectID, list []plugin.Owned[plugin.Directive]) (carried, error) {
	var c carried
	host := s.host(effect)
	for n, owned := range list {
		d := events.Decision{Plugin: owned.Plugin, Kind: owned.Value.Kind}
		switch v := owned.Value; v.Kind {
		case events.DirectiveAbort:
			d.Code, d.Message = clip(v.Code), clip(v.Message)
			c.abort = &events.Issue{Kind: "plugin", Code: d.Code, Message: d.Message}
		case events.DirectiveEnqueue:
			for _, m := range v.Messages {
				if m.Role != events.RoleAssistant {
					m.Origin = owned.Plugin
					c.messages = append(c.messages, m)
					d.Count++
				}
			}
		case events.DirectiveCreate:
			id, err := s.create(ctx, host, effect, n, *v.Create)
			if err != nil {
				return c, &plugin.HookError{Plugin: owned.Plugin, Point: string(v.Kind), Err: err}
			}
			d.Session = id
		case events.DirectiveReplaceArgs:
			c.args, d.Body = v.Args, v.Args
		case events.DirectiveShortCircuit:
			c.answer = v.Result
		case events.DirectiveEmitEvents:
			d.Body, _ = json.Marshal(v.Events) // checked to be JSON
		case events.DirectiveEmitTrace:
			d.Name, d.Body = "plugin."+owned.Plugin+"."+v.Name, v.Payload
			_ = host.EmitTrace(ctx, d.Name, v.Payload)
		case events.DirectiveAskApproval:
			d.Message, c.ask, c.asker, c.within = clip(v.Message), v.Message, owned.Plugin, v.Within
		}
		c.decisions = append(c.decisions, d)
	}
	return c, nil
}

// create creates a session that an earlier run of the effect may have created.
func (s *seen) create(ctx context.Context, host plugin.RuntimeHost, effect events.EffectID, n int, req api.CreateRequest) (events.SessionID, error) {
	derived := req.ID == ""
	if derived {
		req.ID = events.SessionID(events.DerivedID("p-", string(s.session), string(effect), strconv.Itoa(n)))
	}
	_, err := host.CreateSession(ctx, req)
	if errors.Is(err, api.ErrExists) && (derived || s.isChild(ctx, req.ID)) {
		err = nil
	}
	return req.ID, err
}

// isChild reports whether a session is this one's: then an earlier run of the effect created it.
func (s *seen) isChild(ctx context.Context, id events.SessionID) bool {
	child, err := s.w.host.State(ctx, id)
	return err == nil && child.Parent == s.session
}

// maxHookBytes bounds what the hooks of one point may record inside the log.
const maxHookBytes = 128 << 10

// maxInlineBytes leaves room in an event for the references to what is kept outside the log.
const maxInlineBytes = events.MaxEventBytes - 16<<10

// tooLarge reports a payload that no event could carry, whatever of it is kept outside the log.
func tooLarge(p events.Payload) error {
	data, err := events.EncodePayload(p)
	bodies := session.BodyBytes(p)
	fixed := len(data) - bodies
	if err == nil && (fixed > maxHookBytes || fixed+min(bodies, session.InlineTotal) > maxInlineBytes) {
		err = fmt.Errorf("plugins recorded %d bytes at one point, limit is %d: %w", len(data), maxHookBytes, events.ErrTooLarge)
	}
	return err
}

// appended is what messages of hooks are recorded as, for their size.
func appended(list []events.Message) *events.GraphAppended {
	p := &events.GraphAppended{Nodes: make([]events.NewNode, len(list))}
	for i := range list {
		p.Nodes[i] = events.NewNode{ID: events.NodeID(list[i].ID), Kind: events.NodeMessage, Message: list[i]}
	}
	return p
}
