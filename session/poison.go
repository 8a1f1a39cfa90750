package session

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// Poisoned is what a job that came to nothing again and again is about.
type Poisoned struct {
	Turn events.TurnID // to be ended; empty: none
	Body []byte        // the command that asks for it
}

// Poisoned finds the turn that a job keeps failing over: the running one that
// is worked on under it, the parked one that would wait for it for ever, its
// own, or the one that waits next, which it covers.
func (h *Host) Poisoned(ctx context.Context, id events.SessionID, job events.TurnID, cmd *Command) (Poisoned, error) {
	s, err := h.State(ctx, id)
	if err != nil || s.Status != projector.StatusOpen {
		return Poisoned{}, err
	}
	t, own := s.Turn(), cmd.AsksForTurn() && !cmd.Wake
	if t != nil && (t.Job == job || waitsFor(s, cmd.Answering())) {
		return poisoned(t.ID, &Command{Input: t.Input, Actor: cmd.Actor})
	}
	record, err := s.Record(job)
	switch {
	case err != nil:
		return Poisoned{}, err
	case own && record == nil:
		return poisoned(job, cmd)
	case t == nil && len(s.Queue) > 0:
		q := &s.Queue[0]
		return poisoned(q.ID, &Command{Input: q.Input, Actor: cmd.Actor, Busy: q.Busy})
	}
	return Poisoned{}, nil
}

// waitsFor reports whether the running turn is parked until that comes.
func waitsFor(s *projector.State, in turn.Input) bool {
	if in == nil || !turn.Owed(s).Parked() {
		return false
	}
	_, err := turn.Step(s, in)
	return err == nil
}

func poisoned(turn events.TurnID, asks *Command) (Poisoned, error) {
	body, err := events.EncodePayload(asks)
	return Poisoned{Turn: turn, Body: body}, err
}

// FailTurn ends a turn whose job is given up, with the reason; one that no
// worker came to record is recorded with its end. The turns that wait behind it
// go on under a job of their own.
func (h *Host) FailTurn(ctx context.Context, id events.SessionID, of Poisoned, issue events.Issue) error {
	waits := false
	err := h.decide(ctx, id, string(of.Turn), func(s *projector.State) ([]events.Event, error) {
		waits = len(s.Queue) > 1 || len(s.Queue) == 1 && s.Queue[0].ID != of.Turn
		if t := s.Turn(); t != nil && t.ID == of.Turn {
			out, err := turn.Step(s, turn.Broken{Iteration: t.Iteration, Issue: issue})
			return out.Events, err
		}
		waits = waits && s.Turn() == nil
		_, digest, err := findTurn(s, of.Turn)
		if err == nil && digest == "" {
			err = open(s)
		}
		if err != nil {
			return nil, err
		}
		end := events.Of(of.Turn, &events.TurnCompleted{End: events.EndFailed, Issue: issue})
		if digest == "" {
			cmd, err := DecodeCommand(of.Body)
			return []events.Event{events.Of(of.Turn, &events.TurnRequested{Input: cmd.Input}), end}, err
		}
		if record, err := s.Record(of.Turn); record != nil || err != nil {
			return nil, err
		}
		return []events.Event{end}, nil
	})
	if err == nil && waits {
		_, err = h.Wake(ctx, id, "after-"+string(of.Turn))
	}
	if err != nil {
		return fmt.Errorf("fail turn %s of session %s: %w", of.Turn, id, err)
	}
	return nil
}

// Retried is what became of a dead letter's command.
type Retried struct {
	ID    string // that it has in the queue now
	Fresh bool   // the old one has ended in the history: this is another turn
}

// Retry puts the command of a dead letter back in the queue and then forgets
// the letter. A turn that has ended is asked for again under an id that
// follows from the letter, so that a retry which is repeated makes one turn; a
// task that has ended is registered again. Errors: [events.ErrNoSession], [ErrTaskRunning].
func (h *Host) Retry(ctx context.Context, letter *bus.DeadLetter) (Retried, error) {
	var done Retried
	var err error
	switch letter.Class {
	case bus.ClassTask:
		done, err = h.retryTask(ctx, letter)
	default:
		done, err = h.retryTurn(ctx, letter)
	}
	if err == nil {
		err = h.b.DropDead(ctx, letter)
	}
	if err != nil {
		return Retried{}, fmt.Errorf("retry %s of session %s: %w", letter.ID, letter.Session, err)
	}
	return done, nil
}

func (h *Host) retryTurn(ctx context.Context, letter *bus.DeadLetter) (Retried, error) {
	done := Retried{ID: letter.ID}
	s, err := h.State(ctx, letter.Session)
	if err != nil {
		return done, err
	}
	if err := open(s); err != nil {
		return done, err
	}
	record, err := s.Record(events.TurnID(letter.ID))
	if err != nil {
		return done, err
	}
	if record != nil {
		done = Retried{ID: events.DerivedID("retry-", letter.ID, strconv.FormatUint(letter.Seq, 10)), Fresh: true}
	}
	return done, h.requeue(ctx, letter, done.ID)
}

func (h *Host) requeue(ctx context.Context, letter *bus.DeadLetter, id string) error {
	err := h.b.Enqueue(ctx, letter.Class, letter.Session, id, letter.Body)
	if errors.Is(err, bus.ErrQueued) {
		return nil
	}
	return err
}

func (h *Host) retryTask(ctx context.Context, letter *bus.DeadLetter) (Retried, error) {
	job, err := DecodeTaskJob(letter.Body)
	if err != nil {
		return Retried{}, err
	}
	rec, err := h.Task(ctx, letter.Session, job.Task)
	if err != nil {
		return Retried{}, err
	}
	if rec.Live() && rec.Seq == job.Seq {
		return Retried{ID: letter.ID}, h.requeue(ctx, letter, letter.ID)
	}
	_, err = h.RegisterTask(ctx, letter.Session, api.TaskRequest{
		ID: rec.ID, Of: rec.Of, Producer: rec.Producer, Child: rec.Child, Parent: rec.Parent, Cancel: rec.Cancel, Close: rec.Close,
		Restart: rec.Restart, Runner: rec.Runner, Args: job.Args,
	})
	return Retried{ID: string(rec.ID), Fresh: true}, err
}

// FailTask ends a task whose job is given up.
func (h *Host) FailTask(ctx context.Context, id events.SessionID, job TaskJob, why string) error {
	return h.decide(ctx, id, string(job.Task), func(s *projector.State) ([]events.Event, error) {
		rec, ok := s.Task(job.Task)
		if !ok || !rec.Live() || rec.Seq != job.Seq {
			return nil, nil
		}
		return task.Abandon(s, task.ClaimOf(rec), clipText(why))
	})
}
