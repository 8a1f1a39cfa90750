package follow_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

func TestMain(m *testing.M) {
	bustest.VerifyTestMain(m)
}

// node is one message of 200 bytes.
func node(commit, i int) events.NewNode {
	id := fmt.Sprintf("n-%d-%d", commit, i)
	return events.NewNode{ID: events.NodeID(id), Kind: events.NodeMessage, Message: events.Message{
		ID: events.MessageID(id), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: strings.Repeat("x", 200)}},
	}}
}

// commit is the n-th commit of a history, from 1. The first opens the session and adds a tool. Each has the given
// number of events of one node.
func commit(session events.SessionID, n, size int) *events.Commit {
	c := &events.Commit{
		ID: events.CommitID(fmt.Sprintf("%s-%d", session, n)), Session: session, At: events.Millis(1000 + n),
		Actor: events.Actor{Kind: events.ActorSystem},
	}
	if n == 1 {
		c.Events = append(c.Events,
			events.Of("", &events.SessionOpened{Parent: "parent", Labels: map[string]string{"a": "b"}}),
			events.Of("", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: "tool"}}}))
	}
	for i := range size {
		c.Events = append(c.Events, events.Of("", &events.GraphAppended{Nodes: []events.NewNode{node(n, i)}}))
	}
	return c
}

// grow appends the commits after from up to n.
func grow(t *testing.T, b *bus.Bus, session events.SessionID, from, n, size int) {
	t.Helper()
	for i := from + 1; i <= n; i++ {
		_, err := b.Log().Append(t.Context(), commit(session, i, size), events.Seq(i-1))
		runtest.NoError(t, err)
	}
}

// refold is the state from the log only.
func refold(t *testing.T, b *bus.Bus, session events.SessionID) *projector.State {
	t.Helper()
	s := projector.New(session)
	runtest.NoError(t, follow.Sync(t.Context(), b.Log(), b, s))
	runtest.NoError(t, s.Check())
	return s
}

// encoded is a whole state as bytes: its head and every segment's digest.
func encoded(t *testing.T, s *projector.State) []byte {
	t.Helper()
	head, _, err := s.Clone().Snapshot()
	runtest.NoError(t, err)
	return head
}

// same compares the opened state with the fold of the log, byte for byte.
func same(t *testing.T, b *bus.Bus, session events.SessionID) {
	t.Helper()
	s, err := follow.Whole(t.Context(), b, session)
	runtest.NoError(t, err)
	runtest.WantError(t, fmt.Sprintf("check %s", session), s.Check(), nil)
	want := refold(t, b, session)
	if s.Seq != want.Seq || !bytes.Equal(encoded(t, s), encoded(t, want)) {
		t.Errorf("%s: got a state at %d other than the log's at %d", session, s.Seq, want.Seq)
	}
}

// rows compares the rows of the directory and the catalogues with the fold of the log.
func rows(t *testing.T, b *bus.Bus, session events.SessionID) {
	t.Helper()
	want := refold(t, b, session)
	got := directory(t, b, session)
	if a, z := text(t, got), text(t, follow.RowOf(want)); a != z {
		t.Errorf("directory: got %s, want %s", a, z)
	}
	row, err := b.Catalogs().Get(t.Context(), session)
	runtest.NoError(t, err)
	var catalog projector.Catalog
	if err := events.DecodePayload(row.Value, &catalog); err != nil || text(t, catalog) != text(t, want.Catalog) {
		t.Errorf("catalogue: got %+v, %v, want %+v", catalog, err, want.Catalog)
	}
}

func directory(t *testing.T, b *bus.Bus, session events.SessionID) follow.Directory {
	t.Helper()
	row, err := b.Directory().Get(t.Context(), session)
	runtest.NoError(t, err)
	var d follow.Directory
	if err := json.Unmarshal(row.Value, &d); err != nil {
		t.Fatalf("directory row %q: %v", row.Value, err)
	}
	return d
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	runtest.NoError(t, err)
	return string(data)
}

func project(ctx context.Context, b *bus.Bus, session events.SessionID) error {
	return follow.NewProjector(b, nil).Project(ctx, session)
}

func mustProject(t *testing.T, b *bus.Bus, session events.SessionID) {
	t.Helper()
	runtest.NoError(t, project(t.Context(), b, session))
}
