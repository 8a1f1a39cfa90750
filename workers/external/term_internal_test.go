package external

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestCallOfAnEarlierProgram sends calls to ids that a second program may have: they name the term that the history has, or that of the
// second one. One that must not run twice, and that may have reached another program, is lost: the second one would run it again.
func TestCallOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	for name, c := range map[string]struct {
		repeatable, again bool
		holder, term      string
		result            string
		sent              int
	}{
		"new":              {holder: "i1", result: "ran", sent: 1},
		"sent_before":      {holder: "i1", again: true, result: string(events.OutcomeLost)},
		"repeatable":       {repeatable: true, again: true, result: "ran", sent: 1},
		"of_another_id":    {holder: "i2", again: true, result: "ran", sent: 1},
		"new_of_other_id":  {holder: "i2", result: "ran", sent: 1},
		"repeatable_first": {repeatable: true, result: "ran", sent: 1},
		"recorded":         {holder: "i1", term: "2", again: true, result: "ran", sent: 1},
		"recorded_earlier": {holder: "i2", term: "1", again: true, result: string(events.OutcomeLost)},
		"recorded_later":   {holder: "i2", term: "3", again: true, result: string(events.OutcomeLost)},
		"recorded_new":     {holder: "i2", term: "1", result: plugin.CodeUnavailable},
		"recorded_unheard": {holder: "i3", term: "2", again: true, result: "ran", sent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin1 := "notes_" + name
			p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: plugin1}}})
			if err != nil {
				t.Fatal(err)
			}
			defer p.cancel()
			terms := make(chan string, 10)
			sub, err := b.Conn().Subscribe("lash.plugin."+plugin1+".*.call", func(m *nats.Msg) {
				var in wire.Call
				_ = json.Unmarshal(m.Data, &in)
				terms <- in.Term
				_ = m.Respond([]byte(`{"outcome":{"text":"ran"}}`))
			})
			if err != nil {
				t.Fatal(err)
			}
			for id, list := range map[string][]string{"i1": {"1", "2"}, "i2": {"2"}} {
				for _, term := range list {
					data, _ := json.Marshal(&wire.Sign{Term: term})
					p.registry.Sign(plugin1, id, data)
				}
			}
			if c.holder == "i2" {
				p.registry.Gone(plugin1, "i2") // it did not answer once
			}
			call := plugin.Call{Session: "s", Turn: "t", Effect: "e", ID: "c", Key: "k", Holder: c.holder, Term: c.term, Again: c.again}
			r, err := p.handler(plugin1, "once", c.repeatable, nil)(t.Context(), call, json.RawMessage(`{}`))
			if failure, ok := errors.AsType[*plugin.Failure](err); ok {
				r.Text, err = failure.Code, nil
			}
			if unsubscribed := sub.Unsubscribe(); err != nil || unsubscribed != nil || r.Text != c.result && string(r.Outcome) != c.result {
				t.Errorf("got %+v, %v, %v, want %s", r, err, unsubscribed, c.result)
			}
			if len(terms) != c.sent {
				t.Errorf("got %d calls, want %d", len(terms), c.sent)
			}
			if c.sent > 0 {
				if term := <-terms; term != "2" {
					t.Errorf("got a call with the term %q, want the second one", term)
				}
			}
		})
	}
}
