package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// newTurnJSON requests a turn: with a text or parts as input, or without new input.
type newTurnJSON struct {
	ID       events.TurnID     `json:"id,omitempty" jsonschema:"defaults to a new one"`
	Text     string            `json:"text,omitempty" jsonschema:"short for one part of type text"`
	Parts    []givenPartJSON   `json:"parts,omitempty"`
	Continue bool              `json:"continue,omitempty" jsonschema:"true: the turn has no message, and the model continues from the leaf"`
	WhenBusy api.WhenBusy      `json:"when_busy,omitempty" jsonschema:"effect if another turn runs. enqueue (the default): wait. inject: become a message of the running turn. reject: end as refused. interrupt: cancel the running turn and run next. branch: run in a new session. With wait, a refused turn gets 409 turn_rejected; without wait, the end of the refused turn is diverted"`
	At       events.Millis     `json:"at_ms,omitempty" jsonschema:"start time in milliseconds since 1970; a past or omitted time starts the turn at once"`
	Options  json.RawMessage   `json:"options,omitempty" jsonschema:"options of the protocol for this turn, as JSON"`
	Plugins  map[string]string `json:"plugins,omitempty" jsonschema:"options for this turn as JSON text, by plugin id"`

	Extension  extensionJSON      `json:"extension,omitzero" jsonschema:"extension object for the protocol"`
	Generation turnGenerationJSON `json:"generation,omitzero"`
	Output     answerFormJSON     `json:"output,omitzero" jsonschema:"form that the answer must have: the node checks it, and the model may repair it once"`

	Layers []promptLayerJSON `json:"layers,omitempty" jsonschema:"layers of the system prompt for this turn, applied after those of the session: at most 32, of 32 KiB together"`
}

// pendingTurnJSON is a turn that has not ended.
type pendingTurnJSON struct {
	Turn   events.TurnID      `json:"turn"`
	Status pendingStatusJSON  `json:"status" jsonschema:"the status in the list of turns. asking: a call waits for an approval, of the turn or of an agent that works for it, see asks, and GET and POST of the session's approvals. ended: the turn ended just now, repeat the request. A POST without wait, or by a caller that may not read, gets pending instead"`
	Asks   []events.SessionID `json:"asks,omitempty" jsonschema:"of asking: the sessions whose calls wait, this one or those of agents: an answer goes to POST approvals of that session"`
}

// cancelTurnJSON requests that a turn stops.
type cancelTurnJSON struct {
	ID     string `json:"id,omitempty" jsonschema:"id of this request; defaults to a new one"`
	Reason string `json:"reason,omitempty" jsonschema:"stored in the history, at most 1000 bytes"`
}

// cancelledJSON is the outcome of a cancel.
type cancelledJSON struct {
	Receipt api.CancelReceipt `json:"receipt"`
	ID      string            `json:"id,omitempty" jsonschema:"id of the cancel request that took effect"`
	Origin  string            `json:"origin,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

func submitTurn(c *httpRequest, in newTurnJSON) (reply, error) {
	req, err := in.request(c)
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := c.cleanupContext()
	defer cancel()
	if in.At > 0 {
		req.ID, err = c.s.cfg.Service.SubmitAt(ctx, c.session, in.At.Time(), req)
	} else {
		req.ID, err = c.s.cfg.Service.Submit(ctx, c.session, req)
	}
	switch {
	case err != nil:
		return reply{}, err
	case c.maxWait == 0 || !c.mayRead(ctx):
		return c.pending(req.ID), nil
	}
	c.memory.GiveBack() // the turn has its input, and the wait may last
	out, err := c.ended(req.ID, func(ctx context.Context) (err error) {
		if in.At > 0 {
			_, err = c.s.cfg.Service.Await(ctx, c.session, req.ID)
		} else { // a repeat attaches to the turn, waits, and compares the input
			_, err = c.s.cfg.Service.Run(ctx, c.session, req)
		}
		return err
	})
	if _, class := api.Code(err); err != nil && (class == api.ClassUnknown || class == api.ClassBusy) { // the turn was accepted, and only its end is unknown
		return c.pending(req.ID), nil
	}
	return out, err
}

// mayRead is false where the caller may request turns and not read their results.
func (c *httpRequest) mayRead(ctx context.Context) bool {
	_, err := c.s.cfg.Service.State(api.WithNeeds(ctx, api.RightRead), c.session)
	return !errors.Is(err, api.ErrForbidden)
}

func (in *newTurnJSON) request(c *httpRequest) (api.TurnRequest, error) {
	given := 0
	for _, some := range []bool{in.Text != "", len(in.Parts) > 0, in.Continue} {
		if some {
			given++
		}
	}
	if given != 1 {
		return api.TurnRequest{}, invalidBody("give one of text, parts and continue")
	}
	if in.At < 0 {
		return api.TurnRequest{}, invalidField("at_ms", "must not be negative")
	}
	parts, err := c.parts("parts", in.Parts)
	if err != nil {
		return api.TurnRequest{}, err
	}
	input := events.TurnInput{Parts: parts, Continue: in.Continue, Options: in.Options, Plugins: in.Plugins, Extension: in.Extension.extension(), Generation: in.Generation.toEvents()}
	input.Output = events.OutputForm{Name: in.Output.Name, Schema: in.Output.Schema, Strict: in.Output.Strict}
	input.Layers = eventLayers(in.Layers)
	if in.Text != "" {
		input.Parts = []events.Part{{Kind: events.PartText, Text: in.Text}}
	}
	id, err := idempotencyKey(c, "id", in.ID)
	return api.TurnRequest{ID: id, Input: input, WhenBusy: in.WhenBusy}, err
}

func (c *httpRequest) pending(turn events.TurnID) reply {
	return reply{
		status: http.StatusAccepted, body: pendingTurnJSON{Turn: turn, Status: "pending"},
		location: "/v1/sessions/" + string(c.session) + "/turns/" + string(turn),
	}
}

// unfinished is the response about a turn that has not ended, for a caller that may read. Its status is that of the list.
func (c *httpRequest) unfinished(turn events.TurnID) reply {
	out := c.pending(turn)
	ctx, cancel := c.cleanupContext()
	defer cancel()
	s, err := c.s.cfg.Service.State(api.WithNeeds(ctx, api.RightRead), c.session)
	if err != nil { // the turn exists, also if its state cannot be read
		return out
	}
	at, err := s.FindTurn(turn)
	if err != nil || !at.Known() {
		return out
	}
	var asks []events.SessionID
	if at.Running != nil {
		asked, err := c.s.cfg.Service.Approvals(api.WithNeeds(ctx, api.RightRead), c.session)
		if err != nil {
			return out
		}
		asks = api.Asking(asked)
	}
	out.body = pendingTurnJSON{Turn: turn, Status: pendingStatusJSON(api.StatusOf(at, len(asks) > 0)), Asks: asks}
	return out
}

// ended waits for a turn for the request's wait, and responds with its end, or that it has not ended.
func (c *httpRequest) ended(turn events.TurnID, wait func(context.Context) error) (reply, error) {
	ctx, cancel := context.WithDeadline(c.Context(), c.waitEnd)
	defer cancel()
	err := wait(ctx)
	switch {
	case err == nil || errors.Is(err, api.ErrTurnFailed):
		out, err := c.assembled(turn)
		if errors.Is(err, context.DeadlineExceeded) { // the turn has ended and is large, or the servers do not answer
			return c.unfinished(turn), nil
		}
		return out, err
	case ctx.Err() != nil:
		return c.unfinished(turn), nil
	}
	return reply{}, err
}

func (c *httpRequest) assembled(turn events.TurnID) (reply, error) {
	ctx, cancel := c.cleanupContext()
	defer cancel()
	t, err := c.s.cfg.Service.AssembledTurn(api.WithNeeds(ctx, api.RightRead), c.session, turn)
	if errors.Is(err, api.ErrForbidden) && c.Method == http.MethodPost { // the turn was accepted, and the grant to read was revoked since
		return c.pending(turn), nil
	}
	return reply{status: http.StatusOK, body: &t}, err
}

// queuedTurnWait limits the wait for a turn that no worker may have taken yet.
const queuedTurnWait = 100 * time.Millisecond

func getTurn(c *httpRequest) (reply, error) {
	await := func(ctx context.Context) error {
		_, err := c.s.cfg.Service.Await(ctx, c.session, c.turn())
		if _, rejected := errors.AsType[*api.TurnRejectedError](err); rejected {
			return nil // the requester gets it as a conflict; here it is how the turn ended
		}
		return err
	}
	if c.maxWait > 0 {
		return c.ended(c.turn(), await)
	}
	out, err := c.assembled(c.turn())
	switch {
	case errors.Is(err, api.ErrTurnRunning):
		return c.unfinished(c.turn()), nil
	case errors.Is(err, api.ErrUnknownTurn):
		c.startWait(queuedTurnWait) // only a wait finds a request that is still in the queue
		return c.ended(c.turn(), await)
	}
	return out, err
}

// turn is the turn id in the path.
func (c *httpRequest) turn() events.TurnID { return events.TurnID(c.PathValue("turn")) }

// newInputJSON is a message for the running turn, or the next one.
type newInputJSON struct {
	ID       events.InputID  `json:"id,omitempty" jsonschema:"defaults to a new one"`
	Role     events.Role     `json:"role,omitempty" jsonschema:"user or system, defaults to user"`
	Text     string          `json:"text,omitempty" jsonschema:"short for one part of type text"`
	Parts    []givenPartJSON `json:"parts,omitempty"`
	Boundary events.Boundary `json:"boundary,omitempty" jsonschema:"when a running turn takes it: before_completion or after_work; defaults to after_work"`
}

// cancelledInputJSON is the outcome of a cancel of an input.
type cancelledInputJSON struct {
	Receipt   api.InputReceipt `json:"receipt"`
	Cancelled []events.InputID `json:"cancelled" jsonschema:"ids of all cancelled messages"`
}

func cancelInput(c *httpRequest) (reply, error) {
	input := events.InputID(c.PathValue("input"))
	var out cancelledInputJSON
	var err error
	switch text := c.URL.Query().Get("following"); text {
	case "true":
		out.Receipt, out.Cancelled, err = c.s.cfg.Service.CancelInputsFrom(c.Context(), c.session, input)
	case "", "false":
		var receipts []api.InputReceipt
		if receipts, err = c.s.cfg.Service.CancelInputs(c.Context(), c.session, input); err == nil {
			out.Receipt = receipts[0]
		}
		if out.Receipt == api.InputCancelled {
			out.Cancelled = []events.InputID{input}
		}
	default:
		return reply{}, invalidParam("following", "must be true or false")
	}
	out.Cancelled = orNone(out.Cancelled)
	return reply{status: http.StatusOK, body: out}, err
}

func (in cancelTurnJSON) args(c *httpRequest) (api.CancelArgs, error) {
	id, err := idempotencyKey(c, "id", in.ID)
	return api.CancelArgs{Turn: c.turn(), Request: api.CancelRequest{ID: id, Origin: c.caller.Name, Reason: in.Reason}}, err
}

func cancelled(a api.CancelResponse) cancelledJSON {
	return cancelledJSON{Receipt: a.Receipt, ID: a.Evidence.ID, Origin: a.Evidence.Origin, Reason: a.Evidence.Reason}
}

func (in newInputJSON) args(c *httpRequest) (req api.InjectRequest, err error) {
	if (in.Text == "") == (len(in.Parts) == 0) {
		return req, invalidBody("give one of text and parts")
	}
	req.Role, req.Boundary = in.Role, in.Boundary
	if req.Parts, err = c.parts("parts", in.Parts); err != nil {
		return req, err
	}
	if in.Text != "" {
		req.Parts = []events.Part{{Kind: events.PartText, Text: in.Text}}
	}
	req.ID, err = idempotencyKey(c, "id", in.ID)
	return req, err
}

func madeInput(id events.InputID) madeJSON { return madeJSON{string(id)} }

func inputPath(c *httpRequest, id events.InputID) string {
	return sessionPath(c, c.session) + "/inputs/" + string(id)
}
