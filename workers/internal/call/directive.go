package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// directiveOutcome is the outcome of a list of directives.
type directiveOutcome struct {
	decisions []events.Decision
	messages  []events.Message    // enqueued, the plugin as their origin
	abort     *events.Issue       // of the last abort
	args      json.RawMessage     // of the last replacement
	result    *plugin.Result      // replaces the call's result; of the last short circuit
	question  string              // the question of an approval; empty: none is needed
	askedBy   string              // the plugin that asks
	timeLimit time.Duration       // time limit of the approval; 0: none
	places    json.RawMessage     // of the last judgement of places
	frame     *events.FrameSwitch // of the last switch
}

// replacement is the result that replaces the call's own; nil where none does. An abort is a failure of that class.
func (c *directiveOutcome) replacement(class string) *events.ToolResult {
	switch {
	case c.abort != nil:
		return &events.ToolResult{Outcome: events.OutcomeFailure, Class: class, Code: c.abort.Code, Text: "[failed] " + c.abort.Message}
	case c.result == nil:
		return nil
	case c.result.Pending:
		r := Failed(0, plugin.ClassInternal, plugin.CodePendingShort, errPendingShort)
		return &r
	}
	r := resultOf(0, *c.result)
	return &r
}

var errPendingShort = errors.New("a hook answered the call with a pending result")

// approvalRequest builds the approval request of a call.
func (c *directiveOutcome) approvalRequest(call *turn.Call, now time.Time) *events.ToolApprovalAsked {
	asked := &events.ToolApprovalAsked{Effect: call.Effect, Tool: call.Tool, Args: call.Args, Plugin: c.askedBy, Question: clip(c.question), Places: c.places}
	if c.timeLimit > 0 {
		asked.Until = events.MillisOf(now.Add(c.timeLimit))
	}
	return asked
}

// applyDirectives executes directives in order. The stack has checked all of them. The ids of the sessions that it creates
// follow from the effect, so a repeated effect creates none twice. An error is a session that could not be created, or a frame
// switch that could not be recorded; the directives after it are not executed.
func (s *Snapshot) applyDirectives(ctx context.Context, effect events.EffectID, list []plugin.Owned[plugin.Directive]) (directiveOutcome, error) {
	var c directiveOutcome
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
			c.result = v.Result
		case events.DirectiveEmitEvents:
			d.Body, _ = json.Marshal(v.Events) // the stack checked that it is JSON
		case events.DirectiveEmitTrace:
			d.Name, d.Body = "plugin."+owned.Plugin+"."+v.Name, v.Payload
			_ = host.EmitTrace(ctx, v.Place.Of(owned.Plugin), api.TraceEvent{Name: d.Name, Payload: v.Payload})
		case events.DirectiveJudgePlaces:
			c.places, d.Body = v.Payload, v.Payload
		case events.DirectiveContribute:
			d.Contributions = v.Contributions
		case events.DirectiveSystemPrompt:
			d.Message = v.Message
		case events.DirectiveSwitch:
			to, err := s.env.spillSwitch(ctx, withOrigin(*v.Switch, owned.Plugin))
			if err != nil {
				return c, &plugin.HookError{Plugin: owned.Plugin, Point: string(v.Kind), Err: err}
			}
			d.Name, c.frame = string(to.Frame), &to
		case events.DirectiveAskApproval:
			d.Message, c.question, c.askedBy, c.timeLimit = clip(v.Message), v.Message, owned.Plugin, v.Within
		}
		c.decisions = append(c.decisions, d)
	}
	return c, nil
}

// withOrigin names the plugin in the messages that name none.
func withOrigin(to events.FrameSwitch, plugin string) events.FrameSwitch {
	to.Nodes = slices.Clone(to.Nodes)
	for i := range to.Nodes {
		if n := &to.Nodes[i]; n.Kind == events.NodeMessage {
			n.Message.Origin = cmp.Or(n.Message.Origin, plugin)
		}
	}
	return to
}

// create creates a session that an earlier run of the effect may have created.
func (s *Snapshot) create(ctx context.Context, host plugin.RuntimeHost, effect events.EffectID, n int, req api.CreateRequest) (events.SessionID, error) {
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

// isChild reports whether a session is a child of this one, created by an earlier run of the effect.
func (s *Snapshot) isChild(ctx context.Context, id events.SessionID) bool {
	child, err := s.env.Worker.Host.State(ctx, id)
	return err == nil && child.Parent == s.session
}
