package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

// Talk is the access of a chat to sessions.
type Talk struct {
	Service api.Service
	Blobs   blob.Reader
	Servers *bus.Bus
	Config  events.Config // of sessions that the chat creates
	Where   string        // flags that connect another command to the same servers, each after a space
	Node    string        // flags of the node that the chat started, for a later chat; empty: it started none
	Starts  string        // how to start a node there: "lash-node serve starts one"
	Full    bool          // texts are not shortened
	Link    *Link
}

// observed is an observation, or the end of the observations.
type observed struct {
	api.Observed
	err error
}

// slow is the time after which a chat shows what it waits for.
const slow = 2 * time.Second

// late shows, after [slow], what the opening of a session waits for. stop must be called; after it nothing is shown.
func (t *Talk) late(ctx context.Context, show func(Line)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // stop waits for it
		defer close(ended)
		select {
		case <-ctx.Done():
			return
		case <-time.After(slow):
		}
		what := "waiting for a node that opens the session: " + t.Starts
		if t.silent(ctx) {
			what = silentServers
		}
		if ctx.Err() == nil {
			show(noted(Note, "%s", what))
		}
	}()
	return func() { cancel(); <-ended }
}

// Open joins a session, which it creates where begins is true. It shows the last messages, and what the running turn
// did so far. Later observations come through the channel until ctx ends.
func (t *Talk) Open(ctx context.Context, id events.SessionID, begins bool, opts Options, show func(Line)) (*View, <-chan observed, error) {
	if begins {
		if _, err := t.Service.Create(ctx, api.CreateRequest{ID: id, Config: t.Config}); err != nil {
			return nil, nil, t.Explain(err, id)
		}
	}
	view, upto, list, err := t.join(ctx, id, opts)
	if err != nil {
		return nil, nil, t.Explain(err, id)
	}
	t.leftOut(ctx, id, show)
	recent, err := view.Recent(recentMessages)
	for seen := watch(ctx, list); ; {
		for _, l := range recent {
			show(l)
		}
		if err != nil || view.Seq() >= upto {
			return view, seen, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case o := <-seen:
			if recent, err = nil, o.err; err == nil {
				recent, err = view.Seen(o.Observed)
			}
		}
	}
}

// leftOut shows the tools that the session does not have, although their servers have them. A node that the chat started has said so.
func (t *Talk) leftOut(ctx context.Context, id events.SessionID, show func(Line)) {
	if t.Node != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, slow)
	defer cancel()
	state, err := t.Service.ToolState(ctx, id)
	if err != nil {
		return // a node may be busy
	}
	for _, l := range state.LeftOut {
		show(noted(Note, "%s", strings.TrimSpace(fmt.Sprintf("left out: %s %s: %s", l.Source, l.Name, l.Reason))))
	}
}

// recentMessages is the number of messages that a chat shows when it joins a session.
const recentMessages = 12

// watch forwards observations until ctx or the observations end.
func watch(ctx context.Context, list iter.Seq2[api.Observed, error]) <-chan observed {
	out := make(chan observed)
	go func() {
		for o, err := range list {
			select {
			case out <- observed{o, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// join returns a view of a session, and the observations that continue from its state. The commits of unfinished
// turns, up to upto, are observed again, so that they are shown as they happened.
func (t *Talk) join(ctx context.Context, id events.SessionID, opts Options) (v *View, upto events.Seq, list iter.Seq2[api.Observed, error], err error) {
	s, err := t.Service.State(ctx, id)
	if err != nil {
		return nil, 0, nil, err
	}
	upto = s.Seq
	first := s.Seq + 1 // the oldest commit of an unfinished turn
	if now := s.Turn(); now != nil {
		first = min(first, now.Seq)
	}
	for i := range s.Queue {
		first = min(first, s.Queue[i].Seq)
	}
	if first <= s.Seq && first > 1 {
		if s, err = t.Service.StateAt(ctx, id, first-1); err != nil {
			return nil, 0, nil, err
		}
	}
	return NewView(s, opts), upto, t.observe(ctx, id, s.Seq), nil
}

// observe returns commits with the texts that are stored outside the log.
func (t *Talk) observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return func(yield func(api.Observed, error) bool) {
		for o, err := range t.Service.Observe(ctx, id, cursor) {
			if o.Commit != nil {
				t.Fill(ctx, o.Commit)
			}
			if !yield(o, t.Explain(err, id)) {
				return
			}
		}
	}
}

// Fill reads the texts of prompts, replies and partial replies, and with Full also of results. A text that cannot be
// read stays a reference, and views show it as such.
func (t *Talk) Fill(ctx context.Context, c *events.Commit) {
	for i := range c.Events {
		switch p := c.Events[i].Payload.(type) {
		case *events.TurnRequested:
			if in, err := blob.FillInput(ctx, t.Blobs, p.Input); err == nil {
				whole := *p
				whole.Input = in
				c.Events[i].Payload = &whole
			}
		case *events.ModelReplied:
			whole := *p
			if filled, err := blob.Fill(ctx, t.Blobs, []events.Message{{Parts: p.Parts}, {Parts: p.Shown}}); err == nil {
				whole.Parts, whole.Shown = filled[0].Parts, filled[1].Parts
				c.Events[i].Payload = &whole
			}
		case *events.ModelInterrupted:
			whole := *p
			if parts, err := blob.FillParts(ctx, t.Blobs, p.Parts); err == nil {
				whole.Parts = parts
				c.Events[i].Payload = &whole
			}
		case *events.ToolReturned:
			t.fillResults(ctx, p)
		}
	}
}

func (t *Talk) fillResults(ctx context.Context, p *events.ToolReturned) {
	for i := range p.Results {
		if !t.Full {
			return
		}
		if whole, err := blob.FillResult(ctx, t.Blobs, p.Results[i]); err == nil {
			p.Results[i] = whole
		}
	}
}

// Outcome is the result of an action.
type Outcome struct {
	Action  Action
	Session events.SessionID // of Fork: the new session
	Lines   []Line           // lines to show in addition to the session's
	Err     error
}

// Do sends the request of an action to a session. It waits for the response only.
func (t *Talk) Do(ctx context.Context, id events.SessionID, a Action) (out Outcome) {
	out.Action = a
	defer func() { out.Err = t.Explain(out.Err, id) }()
	switch a.Verb { //nolint:exhaustive // the others send no request
	case Say:
		req := api.Ask(a.Text)
		req.ID = a.Turn
		_, out.Err = t.Service.Submit(ctx, id, req)
	case Answer:
		out.Err = t.Service.Approve(ctx, cmp.Or(a.Session, id), events.ToolApprovalGiven{Effect: a.Effect, Granted: a.Granted, Reason: a.Text})
	case Cancel:
		_, _, out.Err = t.Service.Cancel(ctx, id, a.Turn, api.CancelRequest{})
	case Branch:
		out.Err = t.Service.BranchTo(ctx, id, a.Node)
	case Fork:
		out.Session, out.Err = t.Service.Fork(ctx, id, api.CreateRequest{})
	case Compact:
		opened, err := t.Service.Compact(ctx, id)
		if out.Err = err; err == nil && !opened {
			out.Lines = []Line{noted(Note, "there is nothing to compact yet, or no plugin of the session does it")}
		}
	case Model:
		out.Err = t.Service.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
			c.Model = a.Text
			return c
		}})
	case Show:
		out.Lines, out.Err = t.show(ctx, id, a.Effect)
	}
	return out
}

// show is a whole call: its arguments, and its result where there is one.
func (t *Talk) show(ctx context.Context, id events.SessionID, effect events.EffectID) ([]Line, error) {
	asked, err := t.Service.Approvals(ctx, id)
	if err != nil {
		return nil, err
	}
	for i := range asked {
		if a := &asked[i]; a.Effect == effect {
			return append([]Line{noted(Note, "arguments of %s:", a.Tool)}, linesOf(Call, packed(a.Args))...), nil
		}
	}
	s, err := t.Service.State(ctx, id)
	if err != nil {
		return nil, err
	}
	list := argsOf(s, effect)
	output, err := t.Service.ToolOutput(ctx, id, effect)
	switch {
	case errors.Is(err, api.ErrUnknownCall):
		return append(list, noted(Note, "it has no result yet")), nil
	case err != nil:
		return nil, err
	}
	return append(append(list, noted(Note, "result:")), linesOf(Result, output)...), nil
}

// argsOf are the arguments of a call, from the model's message.
func argsOf(s *projector.State, call events.EffectID) []Line {
	id, iteration, index, ok := turn.ParseToolEffect(call)
	nodes, err := s.AllNodes()
	if err != nil || !ok {
		return nil
	}
	for _, n := range nodes {
		if n.Turn != id || n.ID != events.NodeID(projector.ReplyMessage(id, iteration)) {
			continue
		}
		at := int64(-1)
		for i := range n.Message.Parts {
			p := &n.Message.Parts[i]
			if p.Kind != events.PartToolCall {
				continue
			}
			if at++; at == index {
				return append([]Line{noted(Note, "arguments of %s:", p.Tool)}, linesOf(Call, packed(p.Args))...)
			}
		}
	}
	return nil
}

// Explain adds the next step to an error. It is nil where err is.
func (t *Talk) Explain(err error, id events.SessionID) error {
	advice, field := "", new(events.FieldError)
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*explained)), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*events.ErasedError)):
		advice = "lash-node chat without --session begins another"
	case errors.Is(err, events.ErrNoSession):
		return &explained{err: err, whole: true, advice: fmt.Sprintf("there is no session %s here: lash-replay%s ls lists what there is", id, t.Where)}
	case errors.Is(err, api.ErrTurnRunning):
		advice = "/cancel stops it, or wait until it has ended, and try again"
	case errors.Is(err, api.ErrClosed):
		advice = "/fork goes on in a copy"
	case errors.Is(err, api.ErrSelfApproval):
		advice = "another user answers: lash-node approvals lists what waits"
	case errors.Is(err, api.ErrDifferent):
		advice = "the first answer counts"
	case errors.Is(err, api.ErrNotAsked):
		advice = "the turn has ended, or the call was answered"
	case errors.Is(err, api.ErrForbidden):
		advice = "the operator gives rights by scope, an owner by grant, and a lock has no exception"
	case errors.Is(err, api.ErrUnknownNode):
		advice = "/branch lists them"
	case errors.Is(err, bus.ErrNoResponder):
		advice = "no node serves: " + t.Starts
	case errors.As(err, &field):
		return &explained{err: err, whole: true, advice: field.Error()}
	default:
		advice = fmt.Sprintf("the session is kept, %s goes on with it", t.again(id))
	}
	return &explained{err: err, advice: advice}
}

// explained is an error with the next step.
type explained struct {
	err    error
	advice string
	whole  bool // the advice contains the message of the error
}

func (e *explained) Error() string {
	if e.whole {
		return e.advice
	}
	text := e.err.Error()
	if code, _ := api.Code(e.err); code != api.CodeInternal {
		text = api.EncodeError(e.err).Message // without the operations that the error passed through
	}
	return text + ": " + e.advice
}
func (e *explained) Unwrap() error { return e.err }

// Farewell is how to return to a session.
func (t *Talk) Farewell(id events.SessionID) string {
	return fmt.Sprintf("session %s: %s goes on with it", id, t.again(id))
}

// again is the command that goes on with a session, also where no node runs any more.
func (t *Talk) again(id events.SessionID) string {
	return fmt.Sprintf("lash-node chat%s%s --session %s", t.Where, t.Node, id)
}
