package events_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/lash-go/lash/events"
)

var errRead = errors.New("read failed")

// store replies to publishes and reads from a script, one step per attempt.
type store struct {
	steps []settleStep
	try   int
}

type settleStep struct {
	seq     events.Seq // result of the publish
	err     error      // error of the publish
	tail    string     // ids of the commits after the expected one, one letter each
	readErr error      // error after the tail
	last    events.Seq
}

var errSurprise = errors.New("surprise")

func TestSettle(t *testing.T) {
	t.Parallel()
	const at = 1000
	moved, unknown := fmt.Errorf("code 10071: %w", events.ErrMoved), fmt.Errorf("timeout: %w", events.ErrOutcomeUnknown)
	conflict := func(last events.Seq) error {
		return &events.ConflictError{Session: "s1", Expected: at, Last: last}
	}
	for _, tc := range []struct {
		name  string
		steps []settleStep
		want  events.Seq
		err   error
	}{
		{"at_once", []settleStep{{seq: 1001}}, 1001, nil},
		{"other_errors", []settleStep{{err: errSurprise}}, 0, errSurprise},
		{"reply_lost", []settleStep{{err: unknown, tail: "c"}}, 1001, nil},
		{"reply_lost_others_since", []settleStep{{err: unknown, tail: "cxy"}}, 1001, nil},
		{"retry_of_one_that_landed", []settleStep{{err: moved, tail: "c", last: 1001}}, 1001, nil},
		{"never_arrived", []settleStep{{err: unknown}, {seq: 1001}}, 1001, nil},
		{"never_arrived_and_overtaken", []settleStep{{err: unknown, tail: "x"}}, 0, conflict(1001)},
		{"moved", []settleStep{{err: moved, tail: "xy", last: 1002}}, 0, conflict(1002)},
		{"spurious", []settleStep{{err: moved, last: 1000}, {seq: 1001}}, 1001, nil},
		{"history_is_shorter", []settleStep{{err: moved, last: 998}}, 0, conflict(998)},
		{"shorter_but_not_refused", []settleStep{{err: unknown, last: 998}, {err: moved, last: 998}}, 0, conflict(998)},
		{"arrives_between_read_and_last", []settleStep{{err: moved, last: 1001}, {err: moved, tail: "c", last: 1001}}, 1001, nil},
		{"tail_unreadable", []settleStep{{err: moved, readErr: errRead}, {err: unknown, tail: "c"}}, 1001, nil},
		{"tail_cut_before_the_end", []settleStep{{err: moved, tail: "x", readErr: errRead}, {err: moved, tail: "x", last: 1001}}, 0, conflict(1001)},
		{"tail_malformed", []settleStep{{err: moved, readErr: events.ErrMalformed}}, 0, events.ErrMalformed},
		{"malformed_after_this_one", []settleStep{{err: moved, tail: "c", readErr: events.ErrMalformed}}, 1001, nil},
		{"out_of_time", []settleStep{{err: unknown}, {err: unknown, readErr: errRead}}, 0, events.ErrOutcomeUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := &store{steps: tc.steps}
			got, err := events.Settle(t.Context(), s.publication(at))
			if got != tc.want || s.try != len(tc.steps) {
				t.Errorf("got sequence %d, error %v after %d tries, want %d after %d", got, err, s.try, tc.want, len(tc.steps))
			}
			if want, ok := errors.AsType[*events.ConflictError](tc.err); ok {
				if got, ok := errors.AsType[*events.ConflictError](err); !ok || *got != *want {
					t.Errorf("got error %v, want %v", err, want)
				}
			} else if !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
		})
	}
}

func (s *store) publication(at events.Seq) events.Publication {
	return events.Publication{
		Commit: commitOf("c"),
		At:     at,
		Publish: func(context.Context) (events.Seq, error) {
			s.try++
			return s.steps[s.try-1].seq, s.steps[s.try-1].err
		},
		Read: func(_ context.Context, from events.Seq) iter.Seq2[events.Entry, error] {
			return func(yield func(events.Entry, error) bool) {
				step := s.steps[s.try-1]
				for i, id := range step.tail {
					if !yield(events.Entry{Seq: from + events.Seq(i), Commit: commitOf(events.CommitID(string(id)))}, nil) {
						return
					}
				}
				if step.readErr != nil {
					yield(events.Entry{}, step.readErr)
				}
			}
		},
		Last: func(context.Context) (events.Seq, error) { return s.steps[s.try-1].last, nil },
		Wait: func(context.Context, int) error {
			if s.try == len(s.steps) {
				return context.DeadlineExceeded
			}
			return nil
		},
	}
}
