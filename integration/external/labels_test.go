package external

import (
	"context"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// labelled is a plugin that keeps something for each session.
type labelled struct {
	plugin.Factory
	starts chan wire.SessionStart
}

func (l labelled) StartSession(_ context.Context, in wire.SessionStart) error {
	l.starts <- in
	return nil
}

// TestSessionStartHasLabels creates a session with labels. A plugin in the node and one as a program of its own get them.
func TestSessionStartHasLabels(t *testing.T) {
	t.Parallel()
	s := start(t, calling("look", `{}`)...)
	inNode := make(chan map[string]string, 1)
	s.nodeOf([]string{"p"}, plugin.New("own", func(in plugin.BuildContext) (plugin.Plugin, error) {
		select {
		case inNode <- in.Labels:
		default: // the first ones are compared
		}
		return plugin.OfTool(plugin.Tool{Name: "own"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil }).Build(in)
	}))
	p := labelled{plugin.Func("p", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "seen", nil })
		return nil
	}), make(chan wire.SessionStart, 8)}
	s.instance(remote.Config{Plugin: p, Scope: wire.ScopeSession})
	want := map[string]string{"team": "blue", "tier": "2"}
	id := s.Open(api.CreateRequest{Labels: want})
	s.StartTurn(id, "t1", harness.Text("look"))
	s.AwaitTurn(id, "t1")
	start := <-p.starts
	if start.Term == "" {
		t.Error("start: got no term, want that of the program's registration")
	}
	start.Term = ""
	runtest.DeepEqual(t, "start", start, wire.SessionStart{Session: id, Epoch: 1, Labels: want, IdleMS: 30_000})
	runtest.DeepEqual(t, "build", <-inNode, want)
}
