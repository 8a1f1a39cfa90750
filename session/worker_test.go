package session_test

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestAsNode makes a commit as a node: it has the node as actor, and the state is that of the host, which is cached once in a process.
func TestAsNode(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	host, err := session.New(session.Config{Bus: b, Actor: "w1", Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	id, err := host.Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	node := host.Worker().AsNode()
	_, err = node.RegisterTask(t.Context(), id, api.TaskRequest{ID: "work"})
	runtest.NoError(t, err)
	var actors []events.Actor
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		actors = append(actors, e.Commit.Actor)
	}
	want := []events.Actor{{Kind: events.ActorClient, ID: "w1"}, {Kind: events.ActorNode, ID: "w1"}}
	if len(actors) != 2 || actors[0] != want[0] || actors[1] != want[1] {
		t.Errorf("actors: got %+v, want %+v", actors, want)
	}
	if s := node.TakeState(t.Context(), id); s == nil || s.Seq != 2 {
		t.Errorf("state: got %+v, want the cached one after two commits", s)
	}
	if s := host.Worker().TakeState(t.Context(), id); s == nil || s.Seq != 2 {
		t.Errorf("state of the host: got %+v, want the same one", s)
	}
}
