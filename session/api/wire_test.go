package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// travel encodes and decodes an error in both encodings.
func travel(t *testing.T, err error) []*api.RemoteError {
	t.Helper()
	sent := api.EncodeError(fmt.Errorf("do it: %w", err))
	packed, packErr := events.EncodePayload(&sent)
	text, textErr := json.Marshal(sent)
	var first, second api.ErrorBody
	if err := errors.Join(packErr, textErr, events.DecodePayload(packed, &first), json.Unmarshal(text, &second)); err != nil {
		t.Fatal(err)
	}
	return []*api.RemoteError{api.DecodeError(first), api.DecodeError(second)}
}

func TestErrorTravelsAsWhatItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		class api.Class
	}{
		{api.ErrExists, api.ClassConflict},
		{api.ErrClosed, api.ClassConflict},
		{api.ErrTurnRunning, api.ClassConflict},
		{api.ErrUnknownTurn, api.ClassNotFound},
		{api.ErrUnknownNode, api.ClassNotFound},
		{api.ErrDifferent, api.ClassConflict},
		{api.ErrUnknownTool, api.ClassNotFound},
		{api.ErrUnknownSource, api.ClassNotFound},
		{api.ErrNotAsked, api.ClassNotFound},
		{api.ErrUnknownCall, api.ClassNotFound},
		{api.ErrResolved, api.ClassConflict},
		{api.ErrProviderUnconfigured, api.ClassUnavailable},
		{api.ErrProviderUnavailable, api.ClassUnavailable},
		{api.ErrProviderMismatch, api.ClassUnavailable},
		{api.ErrUnknownTask, api.ClassNotFound},
		{api.ErrUnknownMonitor, api.ClassNotFound},
		{api.ErrUnknownAction, api.ClassNotFound},
		{api.ErrUnavailable, api.ClassUnavailable},
		{events.ErrNoSession, api.ClassNotFound},
		{events.ErrOutcomeUnknown, api.ClassUnknown},
		{events.ErrStorage, api.ClassStorage},
		{events.ErrInvalidID, api.ClassInvalid},
		{events.ErrTooLarge, api.ClassTooLarge},
	} {
		for _, got := range travel(t, c.err) {
			if !errors.Is(got, c.err) || got.Class != c.class || !strings.HasPrefix(got.Error(), "do it: ") {
				t.Errorf("%v: got %v of class %s, want class %s", c.err, got, got.Class, c.class)
			}
		}
	}
}

func same[E error](t *testing.T, want E) {
	t.Helper()
	for _, remote := range travel(t, want) {
		got, ok := errors.AsType[E](remote)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, want %#v", got, want)
		}
	}
}

func TestErrorTravelsWithItsData(t *testing.T) {
	t.Parallel()
	same(t, &api.StaleBranchError{Required: "m1", Leaf: "m2"})
	same(t, &api.TurnRejectedError{Turn: "t2", By: "t1"})
	same(t, &events.ErasedError{Session: "s", At: 1700000000000, By: "ann", Reason: "asked to"})
	same(t, &events.LostError{Session: "s", From: 4, To: 9})
	same(t, &api.LimitError{What: "queued turns", Limit: 1024})
	same(t, &api.GenerationError{Expected: -3, Actual: math.MaxInt64})
	same(t, &events.ConflictError{Session: "s", Expected: math.MaxUint64, Last: 8})
	same(t, &api.CursorError{Session: "s", Cursor: 9, Last: 2})
	same(t, &api.TurnFailedError{Turn: "t1", Issue: events.Issue{Kind: "runtime", Code: "x", Message: "it broke"}})
	same(t, &api.ProviderError{Session: "s"})
	same(t, &api.ProviderError{Session: "s", Provider: "a", Actual: "b"})
	same(t, &api.ProviderError{Session: "s", Provider: "a"})
	same(t, &api.ProviderError{Session: "s", Provider: "a", Known: "b, c"})
	same(t, &events.FieldError{Field: "reason", Reason: "has 9 bytes, limit is 8", Err: events.ErrTooLarge})
	same(t, &events.FieldError{Field: "id", Reason: "is taken", Err: events.ErrInvalid})
}

// TestErrorOnTheWireIsOneSentence leaves out the operations that an error passed through, and keeps its context.
func TestErrorOnTheWireIsOneSentence(t *testing.T) {
	t.Parallel()
	missing := fmt.Errorf("session s: %w", events.ErrNoSession)
	field := &events.FieldError{Field: "text", Reason: "is empty", Err: events.ErrInvalid}
	for want, err := range map[string]error{
		"session s: no such session": fmt.Errorf("submit turn t: %w", fmt.Errorf("sync s: %w", missing)),
		"text: is empty":             fmt.Errorf("submit turn t: %w", fmt.Errorf("check: %w", field)),
		"session s: commits 4 to 9 are lost: put their stream back from a backup, or fork what is left of the session: lash-node fork s": fmt.Errorf("state of s: %w", &events.LostError{Session: "s", From: 4, To: 9}),
		"session s: commits 1 to 9 are lost: put their stream back from a backup, or erase the session: lash-node erase s":               fmt.Errorf("state of s: %w", &events.LostError{Session: "s", From: 1, To: 9}),
		"session is closed":                                             api.ErrClosed,
		"outcome unknown: the server is away":                           fmt.Errorf("%w: the server is away", events.ErrOutcomeUnknown),
		"session s was erased at 1970-01-01T00:00:01Z by ann: asked to": fmt.Errorf("state of s: %w", &events.ErasedError{Session: "s", At: 1000, By: "ann", Reason: "asked to"}),
	} {
		if got := api.EncodeError(err).Message; got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}

func TestFailedTurnTravelsWithItsProvider(t *testing.T) {
	t.Parallel()
	for _, got := range travel(t, &api.TurnFailedError{Turn: "t1", Issue: events.Issue{Code: api.CodeProviderMismatch}}) {
		if !errors.Is(got, api.ErrTurnFailed) || !errors.Is(got, api.ErrProviderMismatch) || got.Class != api.ClassFailed {
			t.Errorf("got %#v", got)
		}
	}
}

func TestErrorOfNobodyTellsNothing(t *testing.T) {
	t.Parallel()
	got := api.EncodeError(errors.New("dial tcp 10.0.0.7: password hunter2"))
	if want := (api.ErrorBody{Code: "internal", Message: "internal error"}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := api.DecodeError(api.ErrorBody{Code: "from_the_future", Message: "x"}); got.Class != api.ClassInternal || got.Error() != "x" {
		t.Errorf("got %+v", got)
	}
}
