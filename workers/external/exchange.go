package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/callback"
	"github.com/lash-go/lash/workers/external/internal/registry"
	"github.com/lash-go/lash/workers/external/internal/result"
)

// await sends a call to an instance until that has an outcome. An instance that sends nothing gets the call again: it
// knows the id. delivered: the instance may have received the call. Errors: an [*events.FieldError] for an invalid
// outcome, and others if the instance has no outcome.
func (o *instanceCall) await(ctx context.Context, id string) (outcome *wire.Outcome, delivered bool, err error) {
	stop := context.AfterFunc(ctx, func() {
		if ended(ctx) {
			o.cancel(id)
		}
	})
	defer stop()
	clock := func() time.Duration { return o.p.registry.Clock(o.plugin) }
	answered, repeats, in := clock(), 0, *o.in
	if in.Term, err = o.program(id); err != nil {
		return nil, in.Again, err
	}
	for {
		body, err := wire.Encode(&in)
		if err != nil {
			return nil, delivered, &plugin.Failure{Class: plugin.ClassResourceLimit, Code: plugin.CodeInvalidArgs, Message: err.Error()}
		}
		outcome, err = o.send(ctx, id, body, func() { answered, delivered = clock(), true })
		delivered = delivered || reached(err)
		in.Again = in.Again || delivered && o.single
		pause, refused := silence, (*wire.Error)(nil)
		switch {
		case o.ctx.Err() != nil:
			return nil, delivered, context.Cause(o.ctx)
		case err == nil:
			if err := result.Check(outcome); err != nil {
				return nil, true, err
			}
			return outcome, true, nil
		case errors.Is(err, errForgotten), errors.As(err, &refused):
			return nil, delivered, err
		case errors.As(err, new(*events.FieldError)):
			return nil, true, err
		case errors.Is(err, events.ErrTooLarge): // for the servers; it says nothing about the instance
			return nil, delivered, &plugin.Failure{Class: plugin.ClassResourceLimit, Code: plugin.CodeInvalidArgs, Message: err.Error()}
		case errors.Is(err, result.ErrIncomplete):
			if repeats++; repeats > maxRepeats {
				return nil, true, refusedPieces(err)
			}
			pause = askPause
		case errors.Is(err, bus.ErrNoResponder) && !delivered && o.hasOther(id):
			o.p.registry.Gone(o.plugin, id)
			return nil, false, errGone
		case errors.Is(err, bus.ErrNoResponder): // it may connect again
			pause = askPause
		case errors.Is(err, errSilent):
			pause = 0
		}
		if registry.LeaseOver(clock() - answered) {
			o.p.registry.Gone(o.plugin, id)
			return nil, delivered, errGone
		}
		if !delay.Sleep(o.ctx, pause) {
			return nil, delivered, context.Cause(o.ctx)
		}
	}
}

// program returns the term to send with the call: the one in the history, else the one that was heard last. errGone: another program has the
// id, and may not run the call.
func (o *instanceCall) program(id string) (term string, err error) {
	now, reused := o.p.registry.Term(o.plugin, id)
	of := o.call.Term
	if o.call.Holder != id { // no event names the program
		of = ""
	}
	if of != "" && now != "" && now != of || of == "" && reused && o.in.Again { // another program with the id may have run it
		return "", errGone
	}
	return cmp.Or(of, now), nil
}

// hasOther reports whether an instance lives that may get the call in place of one that has not received it.
func (o *instanceCall) hasOther(id string) bool {
	return o.any && o.p.registry.Pick(o.plugin, o.in.CallID, append(slices.Clone(o.tried), id)...) != ""
}

// reached reports whether a call may have reached the instance although sending it ended with err.
func reached(err error) bool {
	return err != nil && !errors.Is(err, bus.ErrNoResponder) && !errors.Is(err, events.ErrTooLarge)
}

func refusedPieces(err error) error {
	return result.Refused("pieces", "%s, in %d attempts", err, maxRepeats+1)
}

// send sends a call once, and waits while answers come. ctx is that of the turn.
func (o *instanceCall) send(ctx context.Context, id string, body []byte, received func()) (outcome *wire.Outcome, err error) {
	wait, cancel := context.WithCancelCause(o.ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	var large result.Pieces
	var failed error
	err = o.p.bus.AskInstance(wait, o.plugin, id, wire.VerbCall, body, func(data []byte) bool {
		answer, overLimit, ok := o.parse(data)
		if !ok {
			return false // the instance's next sign, or the silence after it, decides
		}
		quiet.Reset(silence)
		received()
		switch {
		case overLimit != nil:
			failed = o.handleOverLimit(id, data, overLimit)
		case answer.Outcome != nil:
			outcome = answer.Outcome
		case answer.Error != nil:
			failed = answer.Error
		case answer.Forgotten:
			failed = errForgotten
		case answer.Pieces != 0:
			outcome, failed = large.Outcome(answer.Pieces)
		case answer.Piece != nil:
			large.Add(answer.Piece)
		case answer.Output != nil:
			o.printed(answer.Output)
		case answer.Callback != nil:
			o.callback(id, answer.Callback)
		case ended(ctx): // a sign of life: the cancel may be lost
			o.cancel(id)
		}
		return outcome != nil || failed != nil
	})
	if err != nil {
		return nil, err
	}
	return outcome, failed
}

// parse reads an answer; ok is false for one that counts as lost. overLimit is set for one above the limits of nesting and values.
func (o *instanceCall) parse(data []byte) (answer wire.Progress, overLimit *events.FieldError, ok bool) {
	if o.limits.Answer(len(data)) != nil {
		o.p.registry.Drop(o.plugin, registry.AnswerRate)
		return answer, nil, false
	}
	err := wire.Decode(data, &answer)
	overLimit, limited := errors.AsType[*events.FieldError](err)
	if err != nil && !limited {
		o.p.registry.Drop(o.plugin, registry.AnswerMalformed)
		return answer, nil, false
	}
	return answer, overLimit, true
}

// handleOverLimit handles an answer above the limits of nesting and values, as each repeat of it will be: a callback is refused, and an
// outcome fails the call. Others are lost.
func (o *instanceCall) handleOverLimit(id string, data []byte, limit *events.FieldError) error {
	var answer struct {
		Callback *struct {
			ID string `json:"id"`
		} `json:"callback"`
		Outcome *struct{} `json:"outcome"`
	}
	switch {
	case json.Unmarshal(data, &answer) != nil:
		o.p.registry.Drop(o.plugin, registry.AnswerMalformed)
	case answer.Callback != nil:
		o.answer(id, answer.Callback.ID, callback.InvalidField(limit))
	case answer.Outcome != nil:
		return limit
	default:
		o.p.registry.Drop(o.plugin, registry.AnswerTooDeep)
	}
	return nil
}

// printed shows what the tool prints. Output above the limits is dropped: the offset of the next one shows the gap.
func (o *instanceCall) printed(out *wire.Output) {
	all := &o.p.registry.Limits(o.plugin).Traffic
	if out.Offset < 0 || out.Offset > wire.MaxOutputOffset || len(out.Text) > wire.MaxOutputBytes || o.limits.Output(all, len(out.Text)) != nil {
		o.p.registry.Drop(o.plugin, registry.OutputRefused)
		return
	}
	o.call.OutputAt(out.Stream, out.Offset, out.Text)
}

// cancel ends the call at an instance.
func (o *instanceCall) cancel(id string) {
	if data, err := json.Marshal(wire.Cancel{CallID: o.in.CallID, GraceMS: o.p.grace.Milliseconds()}); err == nil {
		_ = o.p.bus.TellInstance(o.plugin, id, wire.VerbCancel, data) // each sign of life repeats it
	}
}
