// Package sessiontest has a server with one open session, for tests of the packages that work on sessions without a
// whole node.
package sessiontest

import (
	"context"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// ID is the id of the open session.
const ID events.SessionID = "s"

// System is a server with the open session [ID], and a host of no worker.
type System struct {
	T      *testing.T
	Server *busembed.Server
	Bus    *bus.Bus
	Host   *session.Host
}

// Start starts a server until the end of the test, and opens the session.
func Start(t *testing.T) *System {
	t.Helper()
	s := &System{T: t, Server: bustest.Server(t, busembed.Config{})}
	s.Bus = bustest.Open(t, s.Server)
	s.Host = NewHost(t, session.Config{Bus: s.Bus})
	if _, err := s.Host.Create(t.Context(), api.CreateRequest{ID: ID}); err != nil {
		t.Fatal(err)
	}
	return s
}

// NewHost creates a host without plugins, with a cache of its own.
func NewHost(t *testing.T, cfg session.Config) *session.Host {
	t.Helper()
	cfg.Plugins = session.NoPlugins()
	h, err := session.New(cfg)
	runtest.NoError(t, err)
	return h
}

// State is the session's state, after its own check.
func (s *System) State() *projector.State {
	s.T.Helper()
	state, err := s.Host.State(s.T.Context(), ID)
	runtest.NoError(s.T, err)
	if err := state.Check(); err != nil {
		s.T.Error(err)
	}
	return state
}

// Append appends events of a turn at the end of the history, as the worker w1.
func (s *System) Append(turn events.TurnID, list ...events.Payload) {
	s.T.Helper()
	now := time.Now()
	c := &events.Commit{
		ID: events.CommitID(now.Format("150405.000000000")), Session: ID, At: events.MillisOf(now),
		Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
	}
	for _, p := range list {
		c.Events = append(c.Events, events.Of(turn, p))
	}
	if _, err := s.Bus.Log().Append(s.T.Context(), c, s.State().Seq); err != nil {
		s.T.Fatal(err)
	}
}

// FetchWake fetches a wake of a class on a worker's bus, without an ack.
func (s *System) FetchWake(on *bus.Bus, class bus.Class) (w *bus.Wake) {
	s.T.Helper()
	q, err := on.Queue(s.T.Context(), class)
	runtest.NoError(s.T, err)
	if _, err := q.Fetch(s.T.Context(), 1, time.Minute, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		s.T.Fatalf("fetch: got %v, %v, want a wake", w, err)
	}
	return w
}

// RunUntilEnd starts a service, and stops it at the end of the test without waiting for its work.
func RunUntilEnd(t *testing.T, start func(context.Context) error, stop func(context.Context)) {
	t.Helper()
	if err := start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's context has ended in a cleanup
		cancel()
		stop(now)
	})
}
