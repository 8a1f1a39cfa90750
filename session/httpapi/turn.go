package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
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
	Turn   events.TurnID `json:"-" path:"turn"`
	ID     string        `json:"id,omitempty" jsonschema:"id of this request; defaults to a new one"`
	Reason string        `json:"reason,omitempty" jsonschema:"stored in the history, at most 1000 bytes"`
}

// cancelledJSON is the outcome of a cancel.
type cancelledJSON struct {
	Receipt api.CancelReceipt `json:"receipt"`
	ID      string            `json:"id,omitempty" from:"Evidence.ID" jsonschema:"id of the cancel request that took effect"`
	Origin  string            `json:"origin,omitempty" from:"Evidence.Origin"`
	Reason  string            `json:"reason,omitempty" from:"Evidence.Reason"`
}

func submitTurn(c *httpRequest) (reply, error) {
	var in newTurnJSON
	var req api.TurnRequest
	err := c.read(&in, &req)
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
	out, err := c.ended(req.ID)
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

func (c *httpRequest) pending(turn events.TurnID) reply {
	return reply{
		status: http.StatusAccepted, body: pendingTurnJSON{Turn: turn, Status: "pending"},
		location: c.locate("/turns/", string(turn)),
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

// ended waits for a turn for the request's wait, and responds with its end, or that it has not ended. A turn that was rejected is a
// conflict for its requester; for others that is how it ended.
func (c *httpRequest) ended(turn events.TurnID) (reply, error) {
	ctx, cancel := context.WithDeadline(c.Context(), c.waitEnd)
	defer cancel()
	_, err := c.s.cfg.Service.Await(ctx, c.session, turn)
	_, rejected := errors.AsType[*api.TurnRejectedError](err)
	switch {
	case err == nil || errors.Is(err, api.ErrTurnFailed) || rejected && c.Method != http.MethodPost:
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
	if c.maxWait > 0 {
		return c.ended(c.turn())
	}
	out, err := c.assembled(c.turn())
	switch {
	case errors.Is(err, api.ErrTurnRunning):
		return c.unfinished(c.turn()), nil
	case errors.Is(err, api.ErrUnknownTurn):
		c.startWait(queuedTurnWait) // only a wait finds a request that is still in the queue
		return c.ended(c.turn())
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

// cancelledInput names an input, and says whether the request is about all later ones too.
type cancelledInput struct {
	Input     events.InputID `path:"input"`
	Following bool           `query:"following"`
}

func cancelInput(c *httpRequest) (reply, error) {
	var in cancelledInput
	err := c.readFields(reflect.ValueOf(&in).Elem())
	if err != nil {
		return reply{}, err
	}
	out := cancelledInputJSON{Cancelled: []events.InputID{}}
	if in.Following {
		got, err := operation.CancelInputsFrom.Do(c.Context(), c.s.cfg.Service, c.session, in.Input)
		return reply{status: http.StatusOK, body: shown(&out, got)}, err
	}
	receipts, err := c.s.cfg.Service.CancelInputs(c.Context(), c.session, in.Input)
	if err == nil {
		out.Receipt = receipts[0]
	}
	if out.Receipt == api.InputCancelled {
		out.Cancelled = append(out.Cancelled, in.Input)
	}
	return reply{status: http.StatusOK, body: out}, err
}

func (in *newTurnJSON) complete(c *httpRequest, to any) (err error) {
	given := 0
	for _, some := range []bool{in.Text != "", len(in.Parts) > 0, in.Continue} {
		if some {
			given++
		}
	}
	if given != 1 {
		return invalidBody("give one of text, parts and continue")
	}
	if in.At < 0 {
		return invalidField("at_ms", "must not be negative")
	}
	req := to.(*api.TurnRequest)
	if in.Text != "" {
		req.Input.Parts = []events.Part{{Kind: events.PartText, Text: in.Text}}
	}
	req.ID, err = idempotencyKey(c, "id", in.ID)
	return err
}

func (in *newInputJSON) complete(c *httpRequest, to any) (err error) {
	if (in.Text == "") == (len(in.Parts) == 0) {
		return invalidBody("give one of text and parts")
	}
	req := to.(*api.InjectRequest)
	if in.Text != "" {
		req.Parts = []events.Part{{Kind: events.PartText, Text: in.Text}}
	}
	req.ID, err = idempotencyKey(c, "id", in.ID)
	return err
}

func (in *cancelTurnJSON) complete(c *httpRequest, to any) (err error) {
	args := to.(*api.CancelArgs)
	args.Request.Origin = c.caller.Name
	args.Request.ID, err = idempotencyKey(c, "id", in.ID)
	return err
}
