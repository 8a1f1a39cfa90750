package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// TestTerms has programs with one id sign and register in any order, against a model: of those that live, the one with the greatest term
// has the id; one that starts, or has a smaller term, is refused while it lives; and a node that has received signs of two of them says so.
func TestTerms(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(b, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.cancel()
		k := p.byName["notes"]
		owner, signed, last, two := "", time.Duration(-1), "", false
		lives := func() bool { return signed >= 0 && k.clock()-signed <= wire.Lease }
		t.Repeat(map[string]func(*rapid.T){
			"sign": func(t *rapid.T) {
				term := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "term")
				data, _ := json.Marshal(&wire.Sign{Term: term})
				p.Sign("notes", "i1", data)
				if !lives() || term >= owner {
					owner, signed = term, k.clock()
				}
				two = two || last != "" && term != last
				if last == "" || lives() && owner == term {
					last = term
				}
			},
			"register": func(t *rapid.T) {
				term := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "term")
				other := p.otherProgram("notes", "i1", term)
				if (other != nil) != (lives() && term < owner) {
					t.Fatalf("term %q of %q: got %v", term, owner, other)
				}
			},
			"time": func(t *rapid.T) {
				k.received.Add(int64(rapid.SampledFrom([]time.Duration{time.Millisecond, wire.SignEvery, wire.Lease, wire.Lease + 1}).Draw(t, "passes")))
			},
			"": func(t *rapid.T) {
				term, reused := p.Term("notes", "i1")
				if signed >= 0 && term != owner || reused != two {
					t.Fatalf("got %q, reused %v, want %q, %v", term, reused, owner, two)
				}
				if other, used := p.Term("notes", "i2"); other != "" || used {
					t.Fatalf("another id: got %q, %v", other, used)
				}
			},
		})
	})
}

// TestRegistrationAwaitsTheLease has a program register with the id of another one: it waits until the other one signs again, which refuses it,
// or is silent for its lease. A program that has the greater term, or the same, does not wait.
func TestRegistrationAwaitsTheLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		term  string
		lives bool
		want  bool // an answer before the other program signs, or its lease is over
		code  string
	}{
		"starts_again": {}, "copy": {lives: true, code: wire.CodeConflict}, "smaller": {term: "1", lives: true, code: wire.CodeConflict},
		"smaller_again": {term: "1"}, "same": {term: "2", want: true}, "greater": {term: "3", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := New(nil, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer p.cancel()
				k := p.byName["notes"]
				sign, _ := json.Marshal(&wire.Sign{Term: "2"})
				p.Sign("notes", "i1", sign)
				answer := make(chan error, 1)
				registration, _ := json.Marshal(&wire.Registration{Instance: "i1", Term: c.term})
				go func() {
					p.awaitTerm("notes", wire.VerbRegister, registration)
					answer <- p.checkTerm("notes", "i1", c.term)
				}()
				time.Sleep(wire.Lease / 2) //nolint:forbidigo // in a bubble
				if (len(answer) == 1) != c.want {
					t.Fatalf("got %d answers, want one: %v", len(answer), c.want)
				}
				if c.lives {
					p.Sign("notes", "i1", sign)
				} else {
					k.received.Add(int64(wire.Lease + 1))
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
	p, err := New(nil, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := p.byName["notes"]
	data, _ := json.Marshal(&wire.Sign{Term: "1"})
	for n := range 3 * maxTerms {
		if n%500 == 0 {
			k.received.Add(int64(wire.Lease + wire.SignEvery))
		}
		p.Sign("notes", fmt.Sprint("i", n), data)
	}
	if len(k.terms) > maxTerms {
		t.Errorf("got %d terms, want at most %d", len(k.terms), maxTerms)
	}
	if err := (&wire.Sign{Term: "a b"}).Validate(); err == nil {
		t.Error("a term that is no token is accepted")
	}
}
