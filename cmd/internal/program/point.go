package program

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
)

// ErrBeforeHistory is the error of a time before a history.
var ErrBeforeHistory = errors.New("begins later")

// Point is a sequence, an event by SEQ.POS or by its id, or a time. Empty is the end.
type Point string

// Seq is the last sequence of a history up to a point. At a time it is the commit before the first later one. flag is
// named in errors; now is the time before which a duration ends.
func (p Point) Seq(ctx context.Context, log events.Log, id events.SessionID, flag string, now time.Time) (events.Seq, error) {
	last, err := log.Last(ctx, id)
	if err != nil || p == "" {
		return last, err
	}
	if seq, pos, ok := p.number(); ok {
		if seq == 0 || seq > last {
			return 0, OutsideHistory(flag, p, id, last)
		}
		return seq, hasEvent(ctx, log, id, flag, p, seq, pos)
	}
	if at, ok := p.Time(now); ok {
		return atTime(ctx, log, id, flag, p, at)
	}
	if commit, pos, ok := p.event(); ok {
		return ofEvent(ctx, log, id, flag, p, commit, pos)
	}
	return 0, fmt.Errorf("%s %s: want a sequence such as 12, an event such as 12.0 or its id, or a time such as 2026-11-25T18:30:00Z or 15m", flag, strconv.Quote(string(p)))
}

// number reads a sequence, or SEQ.POS. pos is -1 without one.
func (p Point) number() (seq events.Seq, pos int, ok bool) {
	whole, rest, found := strings.Cut(string(p), ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, 0, false
	}
	if !found {
		return events.Seq(n), -1, true
	}
	pos, err = strconv.Atoi(rest)
	return events.Seq(n), pos, err == nil && pos >= 0
}

// timeLayouts are the forms of a time without a zone, which is UTC as in all output.
var timeLayouts = []string{ //nolint:gochecknoglobals // read-only
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly,
}

// Time reads a time, or a duration before now.
func (p Point) Time(now time.Time) (events.Millis, bool) {
	if d, err := time.ParseDuration(string(p)); err == nil && d >= 0 {
		return events.MillisOf(now.Add(-d)), true
	}
	for _, layout := range timeLayouts {
		if t, err := time.Parse(layout, string(p)); err == nil {
			return events.MillisOf(t), true
		}
	}
	return 0, false
}

// event reads an event id: the commit's id, and the position, which may be missing.
func (p Point) event() (commit events.CommitID, pos int, ok bool) {
	id, rest, found := strings.Cut(string(p), ".")
	pos = -1
	if found {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", 0, false
		}
		pos = n
	}
	const ulidBytes = 26
	return events.CommitID(id), pos, len(id) == ulidBytes
}

func hasEvent(ctx context.Context, log events.Log, id events.SessionID, flag string, p Point, seq events.Seq, pos int) error {
	if pos < 0 {
		return nil
	}
	for entry, err := range log.Read(ctx, id, seq) {
		if err != nil {
			return err
		}
		if n := len(entry.Commit.Events); pos >= n {
			return fmt.Errorf("%s %s: the commit at sequence %d has the events %d.0 to %d.%d", flag, p, seq, seq, seq, n-1)
		}
		break
	}
	return nil
}

func atTime(ctx context.Context, log events.Log, id events.SessionID, flag string, p Point, at events.Millis) (seq events.Seq, err error) {
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return 0, err
		}
		if entry.Commit.At > at {
			if seq == 0 {
				return 0, fmt.Errorf("%s %s: the history of %s %w, at %s", flag, p, id, ErrBeforeHistory, eventjson.Clock(entry.Commit.At))
			}
			break
		}
		seq = entry.Seq
	}
	return seq, nil
}

func ofEvent(ctx context.Context, log events.Log, id events.SessionID, flag string, p Point, commit events.CommitID, pos int) (events.Seq, error) {
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return 0, err
		}
		if entry.Commit.ID == commit && pos < len(entry.Commit.Events) {
			return entry.Seq, nil
		}
	}
	return 0, fmt.Errorf("%s %s: the history of %s has no such event; lash-replay events --json lists their ids", flag, p, id)
}

// OutsideHistory is the error for a sequence that a history does not have.
func OutsideHistory[P ~string | ~uint64](flag string, p P, id events.SessionID, last events.Seq) error {
	return fmt.Errorf("%s %v: the history of %s has the sequences 1 to %d", flag, p, id, last)
}
