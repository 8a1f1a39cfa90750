package session_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/lock"
)

func TestParse(t *testing.T) {
	t.Parallel()
	l, err := lock.Parse(strings.NewReader(`{"plugins":["gate"],"models":["gpt-*"],"max_iterations":5,"least_retain":"720h"} `))
	if err != nil || l.Plugins[0] != "gate" || l.Models[0] != "gpt-*" || l.MaxIterations != 5 || l.LeastRetain != 720*time.Hour {
		t.Errorf("got %+v, %v", l, err)
	}
	for text, want := range map[string]string{
		``: "EOF", `[]`: "array", `{} {}`: "behind", `{"modles":[]}`: "modles", `{"models":["a",""]}`: "models", `{"protocols":[""]}`: "protocols",
		`{"plugins":["a b"]}`: "plugins", `{"max_iterations":-1}`: "max iterations", `{"max_output_tokens":-1}`: "max output tokens",
		`{"least_retain":"-1h"}`: "least retain", `{"least_retain":"soon"}`: "soon",
	} {
		if _, err := lock.Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s named", text, err, want)
		}
	}
}

// TestConfig applies locks to configurations: the result violates no lock, and a refused configuration violates one.
func TestConfig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"", "a", "ab", "b"})
		l := lock.Locks{
			Providers: rapid.SampledFrom([][]string{nil, {"a*"}, {"b"}}).Draw(t, "providers"), Models: rapid.SampledFrom([][]string{nil, {"a*"}, {"b"}}).Draw(t, "models"),
			Protocols: rapid.SampledFrom([][]string{nil, {"a*"}, {"b"}, {"s*"}}).Draw(t, "protocols"), MaxIterations: rapid.Int64Range(0, 3).Draw(t, "iterations"),
			MaxOutputTokens: rapid.Int64Range(0, 3).Draw(t, "tokens"), LeastRetain: time.Duration(rapid.Int64Range(0, 3).Draw(t, "retain")) * time.Millisecond,
		}
		in := events.Config{
			Provider: names.Draw(t, "provider"), Model: names.Draw(t, "model"), Protocol: names.Draw(t, "protocol"), Effort: "high",
			MaxIterations: rapid.Int64Range(0, 4).Draw(t, "n"), MaxOutputTokens: rapid.Int64Range(0, 4).Draw(t, "o"), RetainMillis: rapid.Int64Range(-1, 4).Draw(t, "d"),
		}
		if rapid.Bool().Draw(t, "falls back") {
			in.Fallbacks = []events.Fallback{{Model: "a"}, {Provider: names.Draw(t, "fallback's provider"), Model: names.Draw(t, "fallback")}}
		}
		allowed := func(name string, patterns []string) bool {
			return name == "" || patterns == nil || patterns[0] == name || len(patterns[0]) == 2 && name[0] == patterns[0][0]
		}
		want := in
		if want.MaxIterations == 0 {
			want.MaxIterations = l.MaxIterations
		}
		if want.MaxOutputTokens == 0 {
			want.MaxOutputTokens = l.MaxOutputTokens
		}
		ok := allowed(in.Provider, l.Providers) && allowed(in.Model, l.Models) && allowed(cmp.Or(in.Protocol, "standard"), l.Protocols) &&
			(l.MaxIterations == 0 || in.MaxIterations <= l.MaxIterations) && (l.MaxOutputTokens == 0 || in.MaxOutputTokens <= l.MaxOutputTokens) &&
			(in.RetainMillis <= 0 || in.RetainMillis >= l.LeastRetain.Milliseconds())
		for _, f := range in.Fallbacks {
			ok = ok && allowed(f.Provider, l.Providers) && allowed(f.Model, l.Models)
		}
		got, err := l.Config(in)
		if (err == nil) != ok || ok && !got.Equal(want) {
			t.Fatalf("got %+v, %v, want %+v, allowed %v", got, err, want, ok)
		}
		if err != nil && (!errors.Is(err, api.ErrForbidden) || !errors.As(err, new(*events.FieldError))) {
			t.Fatalf("got %v, want the field named", err)
		}
	})
}

// TestGeneration checks a turn's settings against the limit of its session's configuration.
func TestGeneration(t *testing.T) {
	t.Parallel()
	l := lock.Locks{MaxOutputTokens: 10}
	for tokens, refused := range map[int64]bool{0: false, 10: false, 11: true} {
		err := l.Generation("input.generation", events.Generation{MaxOutputTokens: tokens})
		if e, ok := errors.AsType[*events.FieldError](err); ok != refused || ok && e.Field != "input.generation.max_output_tokens" {
			t.Errorf("%d tokens: got %v, want refused %v", tokens, err, refused)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	l := lock.Locks{Plugins: []string{"gate"}}
	given := map[string]string{"gate": "{}", "todo": "{}"}
	if err := l.Options("options", given); !errors.Is(err, api.ErrForbidden) || !strings.HasPrefix(err.Error(), "options.gate: ") {
		t.Errorf("got %v, want options.gate refused", err)
	}
	if open := l.Open(given); len(open) != 1 || open["todo"] == "" || len(given) != 2 {
		t.Errorf("open: got %v of %v, want todo's", open, given)
	}
	runtest.WantError(t, "options", l.Options("options", map[string]string{"todo": "{}"}), nil)
}

// TestSlashes matches patterns with model names that have a slash.
func TestSlashes(t *testing.T) {
	t.Parallel()
	for p, want := range map[string]bool{"*": true, "meta-llama/*": true, "*llama-3": true, "meta-llama/llama-3": true, "meta-llama": false, "*/gpt": false, "meta-llama/llama-?": false} {
		l := lock.Locks{Models: []string{p}}
		_, err := l.Config(events.Config{Model: "meta-llama/llama-3"})
		if own := l.CheckOwn("any", "meta-llama/llama-3"); (err == nil) != want || (own == nil) != want {
			t.Errorf("%s: got %v, of the node's own %v, want it allowed: %v", p, err, own, want)
		}
	}
}

// TestErrorsAreStable: errors have the same order each time.
func TestErrorsAreStable(t *testing.T) {
	t.Parallel()
	l := lock.Locks{Providers: []string{""}, Models: []string{""}, Protocols: []string{""}, Plugins: []string{"a b"}, MaxIterations: -1, MaxOutputTokens: -1, LeastRetain: -1}
	want := l.Check().Error()
	for range 50 {
		if got := l.Check().Error(); got != want {
			t.Fatalf("got %q, then %q", want, got)
		}
	}
}
