package states_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/states"
)

// TestBytesAreBounded reads sessions whose states have more bytes together than the cache may have: those that were used last stay, and one
// that has more alone does too.
func TestBytesAreBounded(t *testing.T) {
	t.Parallel()
	const size, room = 64 << 10, 3
	b := &bundle{t: t, bus: bustest.Open(t, bustest.Server(t, busembed.Config{}))}
	var err error
	if b.cache, err = states.New(b.bus, 100, room*size*3/2, 0); err != nil {
		t.Fatal(err)
	}
	read := func(id events.SessionID) {
		t.Helper()
		_, err := b.cache.State(t.Context(), id)
		runtest.NoError(t, err)
	}
	node := func(n, size int) *events.GraphAppended {
		m := events.Message{ID: events.MessageID(fmt.Sprint("m", n)), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: strings.Repeat("x", size)}}}
		return &events.GraphAppended{Nodes: []events.NewNode{{ID: events.NodeID(m.ID), Kind: events.NodeMessage, Message: m}}}
	}
	ids := make([]events.SessionID, 5)
	for i := range ids {
		ids[i] = events.SessionID(fmt.Sprint("s", i))
		b.append(ids[i], 0, &events.SessionOpened{})
		b.append(ids[i], 1, node(0, size))
		read(ids[i])
	}
	cached := func() (list []events.SessionID) {
		for _, id := range ids {
			if b.cache.Known(t.Context(), id, func(*projector.State) bool { return true }) {
				list = append(list, id)
			}
		}
		return list
	}
	runtest.Equal(t, "cached", fmt.Sprint(cached()), "[s1 s2 s3 s4]")
	for n := range events.Seq(2 * room) { // one grows
		b.append("s2", 2+n, node(1+int(n), size)) //nolint:gosec // a few
	}
	read("s2")
	runtest.Equal(t, "cached beside a large one", fmt.Sprint(cached()), "[s2]")
}
