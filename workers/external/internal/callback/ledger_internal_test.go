package callback

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestCallbackIsPerformedOnce performs many callbacks, as fast as an instance may, and repeats each one while its answer
// may have been lost. None runs again. Answers that are too large to be kept say so.
func TestCallbackIsPerformedOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size   int
		status int // of the repeat of the first one
	}{
		"small": {10, http.StatusOK},
		"large": {wire.MaxCallbackAnswer, http.StatusGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls, now := new(Ledger), time.Unix(0, 0)
			const count = 1000
			for n := range count {
				id := fmt.Sprint(n)
				if run, _ := calls.Begin(id); !run {
					t.Fatalf("callback %d: got no run, want one", n)
				}
				now = now.Add(2 * wire.CallbackRepeat / count)
				calls.End(id, &wire.CallbackAnswer{Status: http.StatusOK, Body: make([]byte, c.size)}, now)
				if run, answer := calls.Begin(id); run || answer == nil || answer.Status != http.StatusOK {
					t.Fatalf("repeat of callback %d: got %v, %+v, want its answer", n, run, answer)
				}
			}
			for n := range count {
				run, answer := calls.Begin(fmt.Sprint(n))
				if run || answer == nil || n == 0 && answer.Status != c.status {
					t.Fatalf("late repeat of callback %d: got %v, %+v, want an answer", n, run, answer)
				}
			}
			if calls.size > maxAnswerSize {
				t.Errorf("size: got %d, want at most %d", calls.size, maxAnswerSize)
			}
			calls.End("late", &wire.CallbackAnswer{}, now.Add(2*answersKept))
			if len(calls.answers) != 1 || len(calls.ended) != 1 || calls.size != 0 {
				t.Errorf("after %v: got %d answers, %d ids, %d bytes, want the last one", 2*answersKept, len(calls.answers), len(calls.ended), calls.size)
			}
		})
	}
}
