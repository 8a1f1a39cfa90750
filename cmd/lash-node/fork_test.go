package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestLongFork forks a session of a served node at sequences, an event and a time, from another process.
func TestLongFork(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	h := clientOf(t, node)
	_, err := h.Create(limited(t), api.CreateRequest{ID: "s"})
	runtest.NoError(t, err)
	for _, id := range []events.NodeID{"n1", "n2"} {
		m := events.Message{ID: events.MessageID(id), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "note"}}}
		_, err := h.AppendNodes(limited(t), "s", api.AppendNodesRequest{Nodes: []api.AppendNode{{ID: id, Kind: events.NodeMessage, Message: &m}}})
		runtest.NoError(t, err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"s", "--at", "2", "--id", "two"}, exitOK, "forked: session two from s at sequence 2\nlash-node chat --store " + node.store + " --session two goes on with it\n"},
		{[]string{"s", "--at", "2.0", "--id", "event"}, exitOK, "forked: session event from s at sequence 2\n"},
		{[]string{"s", "--at", "0s", "--id", "now"}, exitOK, "forked: session now from s at sequence 3\n"},
		{[]string{"s", "--id", "end"}, exitOK, "forked: session end from s at sequence 3\n"},
		{[]string{"s", "--id", "two"}, exitFailed, "exists"},
		{[]string{"s", "--at", "4"}, exitFailed, "--at 4: the history of s has the sequences 1 to 3"},
		{[]string{"s", "--at", "soon"}, exitFailed, `--at "soon": want a sequence such as 12`},
		{[]string{"nobody"}, exitFailed, "there is no session nobody here"},
	} {
		out, errs, code := lashNode(t, append([]string{"fork", "--store", node.store}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: got code %d, %q %q, want %d and %q", c.args, code, out, errs, c.code, c.want)
		}
	}
	for id, leaf := range map[events.SessionID]events.NodeID{"two": "n1", "event": "n1", "now": "n2", "end": "n2", "s": "n2"} {
		if s, err := h.State(limited(t), id); err != nil || s.Leaf != leaf {
			t.Errorf("%s: got leaf %q, %v, want %s", id, s.Leaf, err, leaf)
		}
	}
	out, _, code := lashNode(t, "fork", "--store", node.store, "s", "--at", "1", "--label", "a=b", "--json")
	var got forked
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK || got.From != "s" || got.Seq != 1 || got.Leaf != "" {
		t.Fatalf("as JSON: got code %d, %s, %v", code, out, err)
	}
	if s, err := h.State(limited(t), got.Session); err != nil || s.Labels["a"] != "b" || s.Nodes != 0 {
		t.Errorf("got %+v, %v, want the label and no nodes", s.Labels, err)
	}
	node.stop(t, syscall.SIGTERM)
}
