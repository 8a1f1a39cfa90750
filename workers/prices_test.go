package workers_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/prices"
)

// TestDefaultPrices expects complete prices with a date and a source.
func TestDefaultPrices(t *testing.T) {
	t.Parallel()
	p, err := prices.Default()
	if err != nil || p.Date == "" || p.Source == "" {
		t.Fatalf("got %+v, %v", p, err)
	}
	for _, provider := range []string{"openai", "openai-responses"} { // the same models, with two interfaces
		if got, ok := p.Cost(provider, "gpt-5", events.Usage{Input: 1e6, Output: 1e6, CacheRead: 1e6, Reasoning: 1e6}); !ok || math.Abs(got-11.375) > 1e-9 {
			t.Errorf("%s: got %v %v, want 11.375", provider, got, ok)
		}
	}
}

const priced = `{"date":"2026-01-02","source":"s","models":[{"provider":"p","names":["a","b"],"input":1,"output":10,"cache_read":0.5}]}`

// TestNoPriceIsGuessed uses names that are similar to those with a price.
func TestNoPriceIsGuessed(t *testing.T) {
	t.Parallel()
	p, err := prices.Parse([]byte(priced))
	runtest.NoError(t, err)
	used := events.Usage{Input: 1e6, Output: 1e6, CacheRead: 1e6, CacheWrite: 1e6}
	if got, ok := p.Cost("p", "b", used); !ok || got != 12.5 { // tokens written to the cache are charged as input
		t.Errorf("got %v %v, want 12.5", got, ok)
	}
	for _, m := range []struct{ provider, model string }{{"p", ""}, {"p", "a-2"}, {"p", "A"}, {"q", "a"}, {"", "a"}, {"p", "c"}} {
		if got, ok := p.Cost(m.provider, m.model, used); ok || got != 0 {
			t.Errorf("%v: got %v, want no price", m, got)
		}
	}
}

// TestPricesAreChecked expects the field of each error in a file of prices.
func TestPricesAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ from, to, field string }{
		{"{", "", "prices"},
		{"}]}", "}]} {}", "prices"},
		{`"date"`, `"day"`, "prices"},
		{"}]}", "}]}" + strings.Repeat(" ", 1<<20), "prices"},
		{"10", `"10"`, "prices"},
		{"2026-01-02", "yesterday", "date"},
		{`"source":"s"`, `"source":""`, "source"},
		{`"provider":"p",`, "", "models[0].provider"},
		{`["a","b"]`, "[]", "models[0].names"},
		{`"b"`, `""`, "models[0].names"},
		{`"b"`, `"a"`, "models[0].names"},
		{`"b"`, `"` + strings.Repeat("b", 201) + `"`, "models[0].names"},
		{`"input":1,`, "", "models[0].input"},
		{`"output":10,`, "", "models[0].output"},
		{`:10`, `:-1`, "models[0].output"},
		{"0.5", "1e300", "models[0].cache_read"},
	} {
		_, err := prices.Parse([]byte(strings.Replace(priced, c.from, c.to, 1)))
		if f, ok := errors.AsType[*events.FieldError](err); !ok || f.Field != c.field {
			t.Errorf("%s for %s: got %v, want a refusal of %s", c.to[:min(len(c.to), 30)], c.from, err, c.field)
		}
	}
}
