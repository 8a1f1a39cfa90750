package serve

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/workers/llm"
)

// listing is a provider with a list of models, or an error.
type listing struct {
	llm.Provider
	names []string
	err   error
	reads int
}

func (l *listing) Models(context.Context) ([]string, error) {
	l.reads++
	return l.names, l.err
}

// TestModelsOfSessions warns of a model that the list of its provider lacks. Where there is no list, it does not. The warning
// has the models that the locks allow.
func TestModelsOfSessions(t *testing.T) {
	t.Parallel()
	one, away := &listing{names: []string{"b", "x", "a"}}, &listing{err: errors.New("connection refused")}
	core, logged := observer.New(zap.WarnLevel)
	m := &modelLists{log: zap.New(core), locks: lock.Locks{Models: []string{"a", "b"}}, providers: map[string]llm.Provider{"one": one, "away": away, "plain": struct{ llm.Provider }{}}, provider: "one", lists: make(map[string]modelList)}
	for _, c := range []struct {
		config events.Config
		want   string
	}{
		{events.Config{Model: "a"}, ""},
		{events.Config{Model: "nope"}, "a, b"},
		{events.Config{Model: "nope", Provider: "one"}, "a, b"},
		{events.Config{Model: "b", Provider: "one"}, ""},
		{events.Config{Model: "nope", Provider: "away"}, ""},
		{events.Config{Model: "nope", Provider: "plain"}, ""},
		{events.Config{Model: "nope", Provider: "unknown"}, ""},
	} {
		if err := m.check(t.Context(), c.config); err != nil {
			t.Errorf("%+v: got %v, want it accepted", c.config, err)
		}
		got := ""
		for _, e := range logged.TakeAll() {
			got, _ = e.ContextMap()["has"].(string)
		}
		if got != c.want {
			t.Errorf("%+v: got a warning with %q, want %q", c.config, got, c.want)
		}
	}
	if one.reads != 1 || away.reads != 1 {
		t.Errorf("reads: got %d and %d, want one of each list", one.reads, away.reads)
	}
}
