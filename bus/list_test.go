package bus_test

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongListPages lists more sessions than one page of the server has.
func TestLongListPages(t *testing.T) {
	t.Parallel()
	const sessions = 300
	b := bustest.Start(t)
	for i := range sessions {
		appendUpTo(t, b, events.SessionID(fmt.Sprintf("s%d", i)), nil, 1)
	}
	all, hot := make(map[events.SessionID]int), make(map[events.SessionID]int)
	for id, err := range b.Sessions(t.Context()) {
		if all[id]++; err != nil {
			t.Fatal(err)
		}
	}
	for one, err := range b.Hot(t.Context()) {
		if hot[one.ID]++; err != nil || one.Last != 1 {
			t.Fatalf("hot session: got %+v, %v", one, err)
		}
	}
	if len(all) != sessions || len(hot) != sessions {
		t.Errorf("got %d sessions and %d hot ones, want %d", len(all), len(hot), sessions)
	}
}

// TestLongListWithoutLeaders lists streams of which some have no leader: the list ends, with the others.
func TestLongListWithoutLeaders(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	b := c.Open(t)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	for i := range 12 { // each on one of the servers
		name := fmt.Sprintf("s%d", i)
		cfg := jetstream.StreamConfig{Name: "lash-s-" + name, Subjects: []string{"lash.s." + name + ".>"}, Replicas: 1}
		_, err = js.CreateStream(t.Context(), cfg)
		runtest.NoError(t, err)
	}
	c.Servers[2].Stop()
	other, err := bus.OpenReader(t.Context(), bus.Config{URL: c.URL})
	runtest.NoError(t, err)
	defer other.Close()
	listed := 0
	for _, err := range other.Hot(t.Context()) {
		if listed++; err != nil {
			t.Fatal(err)
		}
	}
	if listed == 0 || listed > 12 {
		t.Errorf("got %d hot sessions, want those that have a server", listed)
	}
}
