package external

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin"
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
			calls, now := new(callbacks), time.Unix(0, 0)
			const count = 1000
			for n := range count {
				id := fmt.Sprint(n)
				if run, _ := calls.begin(id); !run {
					t.Fatalf("callback %d: got no run, want one", n)
				}
				now = now.Add(2 * wire.CallbackRepeat / count)
				calls.end(id, &wire.CallbackAnswer{Status: http.StatusOK, Body: make([]byte, c.size)}, now)
				if run, answer := calls.begin(id); run || answer == nil || answer.Status != http.StatusOK {
					t.Fatalf("repeat of callback %d: got %v, %+v, want its answer", n, run, answer)
				}
			}
			for n := range count {
				run, answer := calls.begin(fmt.Sprint(n))
				if run || answer == nil || n == 0 && answer.Status != c.status {
					t.Fatalf("late repeat of callback %d: got %v, %+v, want an answer", n, run, answer)
				}
			}
			if calls.size > maxAnswerSize {
				t.Errorf("size: got %d, want at most %d", calls.size, maxAnswerSize)
			}
			calls.end("late", &wire.CallbackAnswer{}, now.Add(2*answersKept))
			if len(calls.answers) != 1 || len(calls.ended) != 1 || calls.size != 0 {
				t.Errorf("after %v: got %d answers, %d ids, %d bytes, want the last one", 2*answersKept, len(calls.answers), len(calls.ended), calls.size)
			}
		})
	}
}

// TestLimitedCallback sends a callback above the limit. It is refused, except where it may have been performed before: by
// this node, or by the node that began the call.
func TestLimitedCallback(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: "notes"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for name, c := range map[string]struct {
		again, known bool
		want         int // status of the answer; 0: none
	}{
		"new":                    {false, false, http.StatusTooManyRequests},
		"known":                  {false, true, 0},
		"of_another_node's_call": {true, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := map[bool]string{false: "i", true: "k"}[c.known] + map[bool]string{false: "n", true: "a"}[c.again]
			sub, err := b.Conn().SubscribeSync("lash.plugin.notes." + id + ".callback")
			if err == nil {
				err = b.Conn().Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			o := &instanceCall{p: p, plugin: "notes", call: plugin.Call{Again: c.again}, in: new(wire.Call), ctx: t.Context(), limits: callTraffic()}
			for o.limits.callbacks.take(1) == nil { // until none is left
			}
			if c.known {
				o.callbacks.begin("q")
			}
			o.callback(id, &wire.Callback{ID: "q", Method: "GET", Path: "/v1/sessions"})
			o.answer(id, "last", &wire.CallbackAnswer{Status: http.StatusTeapot})
			m, err := sub.NextMsg(10 * time.Second)
			var answer wire.CallbackAnswer
			if err == nil {
				err = json.Unmarshal(m.Data, &answer)
			}
			if want := cmp.Or(c.want, http.StatusTeapot); err != nil || answer.Status != want {
				t.Errorf("first answer: got %+v, %v, want the status %d", answer, err, want)
			}
		})
	}
}
