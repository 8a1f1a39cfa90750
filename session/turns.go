package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Ask is a request for a turn that answers a text.
func Ask(text string) TurnRequest {
	return TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: text}}}}
}

// Submit asks for a turn and returns its id. When it returns nil the command
// is durable: it ends in the history. It does not wait for anything else. An
// id that was used with other input is [ErrDifferent] where that waits in the
// queue still, or this host knows of it; [Host.Run] finds out for certain. A
// session in which too many turns wait refuses more with an [api.LimitError].
// What becomes of it while another turn runs, WhenBusy says: a policy that does
// not exist, or does not fit the input, is [events.ErrInvalid].
func (h *Host) Submit(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnID, error) {
	turn, _, err := h.AskForTurn(ctx, id, req)
	return turn, err
}

// AskForTurn implements [Commands].
func (h *Host) AskForTurn(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnID, string, error) {
	if h.commands != nil {
		return h.commands.AskForTurn(ctx, id, req)
	}
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	ctx, asked := api.TakeAsked(ctx)
	input, err := h.prepare(ctx, id, req)
	if err != nil {
		return "", "", err
	}
	if err := h.roomFor(ctx, id, req.ID); err != nil {
		return "", "", fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	digest := projector.InputDigest(input)
	waited, err := enqueueNew(ctx, h.b, id, req.ID, Command{
		Input: input, Actor: h.stamp("", asked).actor.ID, Busy: busyOf(req.WhenBusy), Seen: h.seen(id),
	})
	if err == nil && waited {
		err = wrapSubmit(req.ID, h.sameTurn(ctx, id, req.ID, digest))
	}
	return req.ID, digest, err
}

// seen is the end of a session as this host saw it last.
func (h *Host) seen(id events.SessionID) events.Seq {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return 0
	}
	return s.state.Seq
}

// prepare checks a request, and puts what is large of its input in blobs.
func (h *Host) prepare(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnInput, error) {
	if err := errors.Join(events.CheckToken("session", id), events.CheckToken("turn", req.ID)); err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn: %w", err)
	}
	spilled, err := Spill(ctx, h.b, &events.TurnRequested{Input: req.Input})
	if err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	input := spilled.(*events.TurnRequested).Input
	if err := h.admissible(ctx, id, req.ID, input); err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	return input, nil
}

// busyOf is the policy as histories name it.
func busyOf(w WhenBusy) events.WhenBusy {
	if w == WhenBusyEnqueue {
		return events.BusyEnqueue
	}
	return events.WhenBusy(w)
}

// sameTurn refuses an id under which a turn with other input waits in the
// queue, or has just been taken from it.
func (h *Host) sameTurn(ctx context.Context, id events.SessionID, turn events.TurnID, digest string) error {
	found, err := h.queuedTurn(ctx, id, turn)
	if err == nil {
		_, err = h.sameInput(ctx, id, turn, found, digest)
	}
	return err
}

// sameInput reports whether a turn that was looked for waits, or the history
// has it. With other input it is [ErrDifferent].
func (h *Host) sameInput(ctx context.Context, id events.SessionID, turn events.TurnID, found unrecordedTurn, digest string) (known bool, err error) {
	have := projector.InputDigest(found.input)
	if !found.waits {
		s, err := h.State(ctx, id)
		if err != nil {
			return false, err
		}
		if _, have, err = findTurn(s, turn); have == "" || err != nil {
			return false, err
		}
	}
	if have != digest {
		return true, ErrDifferent
	}
	return true, nil
}

// admissible refuses at the door what the state at hand already rules out.
// The state may be old: the worker decides for good.
func (h *Host) admissible(ctx context.Context, id events.SessionID, turn events.TurnID, input events.TurnInput) error {
	digest := ""
	s, err := h.atHand(ctx, id, func(s *projector.State) (err error) {
		if _, digest, err = findTurn(s, turn); err == nil && digest == "" {
			err = open(s) // one that it has is the same turn, whatever the session became
		}
		return err
	})
	if err == nil && digest != "" && digest != projector.InputDigest(input) {
		return ErrDifferent
	}
	if err != nil || digest != "" || h.plugins == nil {
		return err
	}
	p, _, release, err := h.Stack(ctx, s)
	if err != nil {
		return err
	}
	defer release()
	if err := p.Protocol().ValidateTurn(ctx, input); err != nil {
		return fmt.Errorf("%w: %w", api.ErrProtocol, err)
	}
	return nil
}

// findTurn looks a turn up wherever it is: record is nil while it is not
// finished, digest is empty when the session never heard of it.
func findTurn(s *projector.State, id events.TurnID) (record *projector.TurnRecord, digest string, err error) {
	if t := s.Turn(); t != nil && t.ID == id {
		return nil, projector.InputDigest(t.Input), nil
	}
	for i := range s.Queue {
		if s.Queue[i].ID == id {
			return nil, projector.InputDigest(s.Queue[i].Input), nil
		}
	}
	record, err = s.Record(id)
	if record != nil {
		digest = record.Input
	}
	return record, digest, err
}

// Run submits a turn and waits for its end, which another turn in its way may
// bring: see [WhenBusy]. An id that was used with other input is [ErrDifferent].
func (h *Host) Run(ctx context.Context, id events.SessionID, req TurnRequest) (TurnResult, error) {
	ear, err := h.listen(id)
	if err != nil {
		return TurnResult{}, err
	}
	defer ear.close()
	turn, input, err := h.AskForTurn(ctx, id, req)
	if err != nil {
		return TurnResult{}, err
	}
	if !h.knownEnded(id, turn) {
		if err := ear.ended(ctx, turn, firstLook); err != nil {
			return TurnResult{}, err
		}
	}
	r, err := h.result(ctx, id, turn)
	if (err == nil || errors.Is(err, api.ErrTurnFailed) || errors.Is(err, ErrTurnRunning)) && r.Input != input {
		return TurnResult{}, fmt.Errorf("run turn %s: %w", turn, ErrDifferent)
	}
	return r, err
}

// knownEnded reports whether the state at hand has the turn's end already.
func (h *Host) knownEnded(id events.SessionID, turn events.TurnID) bool {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return false
	}
	record, err := s.state.Record(turn)
	return err == nil && record != nil
}

// Await waits until a turn has ended. Any number may wait for the same turn,
// also after its end and before any worker took its command. A turn that
// nobody asked for is [ErrUnknownTurn].
func (h *Host) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (TurnResult, error) {
	ear, err := h.listen(id)
	if err != nil {
		return TurnResult{}, err
	}
	defer ear.close()
	_, record, _, err := h.askedFor(ctx, id, turn)
	if err != nil {
		return TurnResult{}, fmt.Errorf("await turn %s of session %s: %w", turn, id, err)
	}
	if record == nil {
		if err := ear.ended(ctx, turn, laterLook); err != nil {
			return TurnResult{}, err
		}
	}
	return h.result(ctx, id, turn)
}

// askedFor is the session of a turn, with the turn's record where it has ended,
// and whether its history has the turn: else it waits. [ErrUnknownTurn] where it does neither.
func (h *Host) askedFor(ctx context.Context, id events.SessionID, turn events.TurnID) (s *projector.State, record *projector.TurnRecord, known bool, err error) {
	waits, err := h.Waits(ctx, id, turn)
	if err != nil {
		return nil, nil, false, err
	}
	s, err = h.State(ctx, id) // after the look into the queue, from which turns come here
	if err != nil {
		return nil, nil, false, err
	}
	record, digest, err := findTurn(s, turn)
	if err == nil && digest == "" && (!waits || s.Status == projector.StatusClosed) {
		err = ErrUnknownTurn
	}
	return s, record, digest != "", err
}

// Waits implements [Commands]. A turn that the state at hand has waits for nothing.
func (h *Host) Waits(ctx context.Context, id events.SessionID, turn events.TurnID) (bool, error) {
	if h.commands != nil && !h.knows(id, turn) {
		return h.commands.Waits(ctx, id, turn)
	}
	found, err := h.unrecorded(ctx, id, turn)
	return found.waits, err
}

// unrecordedTurn is a turn whose command no worker has taken.
type unrecordedTurn struct {
	waits bool             // it is there
	timed bool             // and waits for its time
	input events.TurnInput // of it
}

// unrecorded looks for the command of a turn in the queue and among the timers, unless the state at hand has the turn.
func (h *Host) unrecorded(ctx context.Context, id events.SessionID, turn events.TurnID) (found unrecordedTurn, err error) {
	if err := errors.Join(events.CheckToken("session", id), events.CheckToken("turn", turn)); err != nil {
		return found, err
	}
	if h.knows(id, turn) {
		return found, nil
	}
	if found, err = h.queuedTurn(ctx, id, turn); err != nil || found.waits {
		return found, err
	}
	timer, err := h.b.Timer(ctx, id, string(turn))
	if errors.Is(err, bus.ErrNotFound) { // it may have come into the queue since that was looked at
		return h.queuedTurn(ctx, id, turn)
	}
	if err != nil {
		return found, err
	}
	alarm, err := DecodeAlarm(timer.Body)
	if err != nil || alarm.ID != turn {
		return found, err
	}
	return unrecordedTurn{waits: true, timed: true, input: alarm.Command.Input}, nil
}

// knows reports whether the state at hand has the turn.
func (h *Host) knows(id events.SessionID, turn events.TurnID) bool {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return false
	}
	_, digest, err := findTurn(s.state, turn)
	return err == nil && digest != ""
}

// result reads how a finished turn ended, from the state at hand where that knows.
func (h *Host) result(ctx context.Context, id events.SessionID, turn events.TurnID) (TurnResult, error) {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fresh := range []bool{false, true} {
		if err := h.loadLocked(ctx, id, s, fresh); err != nil {
			return TurnResult{}, err
		}
		record, err := s.state.Record(turn)
		if err != nil {
			return TurnResult{}, err
		}
		if record != nil {
			text, err := answerText(s.state, record)
			switch {
			case err != nil:
			case record.End == events.EndFailed:
				err = &api.TurnFailedError{Turn: turn, Issue: record.Issue}
			case record.End == events.EndRejected:
				err = &api.TurnRejectedError{Turn: turn, By: record.By}
			}
			return TurnResult{TurnRecord: *record, Text: text}, err
		}
	}
	return TurnResult{}, fmt.Errorf("turn %s of session %s: %w", turn, id, ErrUnknownTurn)
}

// answerText is what a finished turn came to: the text of its last assistant
// message, or of the tool result that ended it.
func answerText(s *projector.State, record *projector.TurnRecord) (string, error) {
	path, err := s.Path()
	if err == nil && s.Leaf != record.Leaf {
		path, err = s.PathTo(record.Leaf)
	}
	for i := len(path) - 1; i >= 0 && path[i].Turn == record.ID; i-- {
		m := path[i].Message
		if record.Tool != "" {
			if results := resultParts(m); int(record.Call) < len(results) {
				return results[record.Call].Text, err
			}
		} else if m.Role == events.RoleAssistant {
			return m.Text(), err
		}
	}
	return "", err
}

func resultParts(m events.Message) []events.Part {
	var list []events.Part
	for _, p := range m.Parts {
		if p.Kind == events.PartToolResult {
			list = append(list, p)
		}
	}
	return list
}
