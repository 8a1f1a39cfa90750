package external

import (
	"cmp"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/rate"
)

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
			o := &instanceCall{p: p, plugin: "notes", call: plugin.Call{Again: c.again}, in: new(wire.Call), ctx: t.Context(), limits: rate.NewCall()}
			for o.limits.Callback(&rate.NewPlugin().Traffic) == nil { // until none is left
			}
			if c.known {
				o.callbacks.Begin("q")
			}
			o.callback(id, &wire.Callback{ID: "q", Method: "GET", Path: "/v1/sessions"})
			o.answer(id, "last", &wire.CallbackAnswer{Status: http.StatusTeapot})
			m, err := sub.NextMsg(time.Minute)
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
