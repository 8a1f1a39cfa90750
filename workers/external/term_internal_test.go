package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestTerms has programs with one id sign and register in any order, against a model: of those that live, the one with the greatest term
// has the id; one that starts, or has a smaller term, is refused while it lives; and a node that has heard two of them says so.
func TestTerms(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: "notes"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.cancel()
		k := p.byName["notes"]
		owner, heard, last, two := "", time.Duration(-1), "", false
		lives := func() bool { return heard >= 0 && k.clock()-heard <= wire.Lease }
		t.Repeat(map[string]func(*rapid.T){
			"sign": func(t *rapid.T) {
				term := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "term")
				data, _ := json.Marshal(&wire.Sign{Term: term})
				p.sign("notes", "i1", data)
				if !lives() || term >= owner {
					owner, heard = term, k.clock()
				}
				two = two || last != "" && term != last
				if last == "" || lives() && owner == term {
					last = term
				}
			},
			"register": func(t *rapid.T) {
				term := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "term")
				other := p.otherProgram("notes", &wire.Registration{Instance: "i1", Term: term})
				if (other != nil) != (lives() && term < owner) {
					t.Fatalf("term %q of %q: got %v", term, owner, other)
				}
			},
			"time": func(t *rapid.T) {
				k.hearing.Add(int64(rapid.SampledFrom([]time.Duration{time.Millisecond, wire.SignEvery, wire.Lease, wire.Lease + 1}).Draw(t, "passes")))
			},
			"": func(t *rapid.T) {
				term, reused := p.termOf("notes", "i1")
				if heard >= 0 && term != owner || reused != two {
					t.Fatalf("got %q, reused %v, want %q, %v", term, reused, owner, two)
				}
				if other, used := p.termOf("notes", "i2"); other != "" || used {
					t.Fatalf("another id: got %q, %v", other, used)
				}
			},
		})
	})
}

// TestTermsAreCheckedOnceHeard has a program register with the id of another one: it waits until the other one is heard again, which refuses it,
// or is silent for its lease. A program that has the greater term, or the same, does not wait.
func TestTermsAreCheckedOnceHeard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		term  string
		lives bool
		want  bool // an answer before the other program is heard, or its lease is over
		code  string
	}{
		"starts_again": {}, "copy": {lives: true, code: wire.CodeConflict}, "smaller": {term: "1", lives: true, code: wire.CodeConflict},
		"smaller_again": {term: "1"}, "same": {term: "2", want: true}, "greater": {term: "3", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
				if err != nil {
					t.Fatal(err)
				}
				defer p.cancel()
				k := p.byName["notes"]
				sign, _ := json.Marshal(&wire.Sign{Term: "2"})
				p.sign("notes", "i1", sign)
				answer := make(chan error, 1)
				go func() { answer <- p.checkTerm("notes", &wire.Registration{Instance: "i1", Term: c.term}) }()
				time.Sleep(wire.Lease / 2)
				if (len(answer) == 1) != c.want {
					t.Fatalf("got %d answers, want one: %v", len(answer), c.want)
				}
				if c.lives {
					p.sign("notes", "i1", sign)
				} else {
					k.hearing.Add(int64(wire.Lease + 1))
				}
				err = <-answer
				if e, ok := errors.AsType[*wire.Error](err); (err == nil) != (c.code == "") || err != nil && (!ok || e.Code != c.code) {
					t.Errorf("got %v, want the code %q", err, c.code)
				}
			})
		})
	}
}

// TestTermsAreBounded has very many programs sign, each with an id of its own: those that are gone are forgotten.
func TestTermsAreBounded(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
	if err != nil {
		t.Fatal(err)
	}
	k := p.byName["notes"]
	data, _ := json.Marshal(&wire.Sign{Term: "1"})
	for n := range 3 * maxTerms {
		if n%500 == 0 {
			k.hearing.Add(int64(wire.Lease + wire.SignEvery))
		}
		p.sign("notes", fmt.Sprint("i", n), data)
	}
	if len(k.terms) > maxTerms {
		t.Errorf("got %d terms, want at most %d", len(k.terms), maxTerms)
	}
	if err := (&wire.Sign{Term: "a b"}).Validate(); err == nil {
		t.Error("a term that is no token is accepted")
	}
}

// TestCallOfAnEarlierProgram sends calls to an id that a second program has: they name its term. One that must not run twice, and that may
// have reached the first program, is lost: the second one would run it again.
func TestCallOfAnEarlierProgram(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	for name, c := range map[string]struct {
		repeatable, again bool
		holder, result    string
		sent              int
	}{
		"new":              {holder: "i1", result: "ran", sent: 1},
		"sent_before":      {holder: "i1", again: true, result: string(events.OutcomeLost)},
		"repeatable":       {repeatable: true, again: true, result: "ran", sent: 1},
		"of_another_id":    {holder: "i2", again: true, result: "ran", sent: 1},
		"new_of_other_id":  {holder: "i2", result: "ran", sent: 1},
		"repeatable_first": {repeatable: true, result: "ran", sent: 1},
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
					p.sign(plugin1, id, data)
				}
			}
			if c.holder == "i2" {
				p.gone(plugin1, "i2") // it did not answer once
			}
			call := plugin.Call{Session: "s", Turn: "t", Effect: "e", ID: "c", Key: "k", Holder: c.holder, Again: c.again}
			r, err := p.handler(plugin1, "once", c.repeatable, nil)(t.Context(), call, json.RawMessage(`{}`))
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
