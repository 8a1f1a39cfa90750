package playback_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/decision"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// bundle is a server, a host and a player.
type bundle struct {
	t      *testing.T
	server *busembed.Server
	bus    *bus.Bus
	host   *session.Host
	player *playback.Player
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{t: t, server: bustest.Server(t, busembed.Config{})}
	b.bus = bustest.Open(t, b.server)
	host, err := session.New(session.Config{Bus: b.bus, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	b.host, b.player = host, playback.NewPlayer(host)
	return b
}

// work starts n workers, each with its own connection, which end with the test.
func (b *bundle) work(n int) {
	b.t.Helper()
	for range n {
		w, err := workers.NewNode(workers.Config{
			Bus: bustest.Open(b.t, b.server), Provider: "scripted", Tools: b.player.Tools,
			Providers: map[string]llm.Provider{"scripted": b.player.Provider()},
		})
		if err != nil {
			b.t.Fatal(err)
		}
		if err := w.Start(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.t.Cleanup(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's context has ended in a cleanup
			cancel()
			w.Stop(now)
		})
	}
}

// read parses a recording.
func read(t *testing.T, name string, data []byte) []recording.Conversation {
	t.Helper()
	convs, err := recording.Read(name, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return convs
}

// plans makes plans for sessions with the prefix.
func (b *bundle) plans(prefix string, convs []recording.Conversation) []*playback.Plan {
	b.t.Helper()
	plans := make([]*playback.Plan, len(convs))
	for i := range convs {
		plans[i] = playback.NewPlan(events.SessionID(fmt.Sprintf("%s-%d", prefix, i)), &convs[i])
		if err := b.player.Add(plans[i]); err != nil {
			b.t.Fatal(err)
		}
	}
	return plans
}

// play plays a plan and checks the history.
func (b *bundle) play(t *testing.T, plan *playback.Plan) {
	t.Helper()
	if err := b.player.Play(t.Context(), plan, nil); err != nil {
		t.Errorf("play: %v", err)
		return
	}
	b.check(t, plan)
}

// check expects a history that equals the recording, keeps the rules of events, and is decided in the same way again.
func (b *bundle) check(t *testing.T, plan *playback.Plan) {
	t.Helper()
	v := projector.NewVerifier(plan.Session)
	for entry, err := range b.bus.Log().Read(t.Context(), plan.Session, 1) {
		if err != nil {
			t.Error(err)
			return
		}
		if _, diff, err := decision.Hooks(nil).Compare(t.Context(), v.State(), entry); diff != nil || err != nil {
			t.Errorf("decisions of %s at %d: got %+v, %v, want those of the history", plan.Session, entry.Seq, diff, err)
		}
		for _, violation := range v.Apply(entry) {
			t.Errorf("%s: %+v", plan.Session, violation)
		}
	}
	for _, violation := range v.Check() {
		t.Errorf("%s: %+v", plan.Session, violation)
	}
	if diff := b.compare(t, plan); diff != nil {
		t.Error(diff)
	}
}

func (b *bundle) compare(t *testing.T, plan *playback.Plan) *playback.Difference {
	t.Helper()
	s, err := b.host.State(t.Context(), plan.Session)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := playback.Compare(t.Context(), b.bus, plan, s)
	if err != nil {
		t.Fatal(err)
	}
	return diff
}

// playAll plays plans, atOnce at the same time.
func (b *bundle) playAll(t *testing.T, plans []*playback.Plan, atOnce int) {
	t.Helper()
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, plan := range plans {
		all.Go(func() error { b.play(t, plan); return nil })
	}
	_ = all.Wait() // play reports to t
}
