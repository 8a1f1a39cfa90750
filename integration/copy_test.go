package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/blob"
)

// ways are the ways to copy a session, each with whether it takes the active path alone.
var ways = map[string]struct {
	path bool
	copy func(b *bundle, id events.SessionID) (events.SessionID, error)
}{
	"fork": {true, func(b *bundle, id events.SessionID) (events.SessionID, error) {
		return b.Fork(b.ctx, id, api.CreateRequest{Parent: id, Plugins: api.PluginsFork})
	}},
	"existing": {false, func(b *bundle, id events.SessionID) (events.SessionID, error) {
		return b.Create(b.ctx, api.CreateRequest{Start: api.StartExisting, From: id, Parent: id, Plugins: api.PluginsFork})
	}},
	"current": {false, func(b *bundle, id events.SessionID) (events.SessionID, error) {
		handle, err := b.CreateFrom(b.ctx, id, api.CreateRequest{Start: api.StartCurrent, Plugins: api.PluginsFork})
		return handle.Session, err
	}},
	"snapshot": {false, func(b *bundle, id events.SessionID) (events.SessionID, error) {
		return b.Create(b.ctx, api.CreateRequest{Start: api.StartSnapshot, Snapshot: b.state(id), Parent: id, Plugins: api.PluginsFork})
	}},
	"branch": {false, func(b *bundle, id events.SessionID) (events.SessionID, error) {
		b.submit(id, "waits", text("waits"))
		b.submit(id, "behind", text("behind"))
		s := b.state(id)
		return b.Branch(b.ctx, id, projector.QueuedTurn{ID: "behind", Behind: "waits", Input: s.Queue[1].Input, Seq: s.Queue[1].Seq})
	}},
}

// compacted is a session of n messages on two branches, with a compaction that keeps the last two, options, and states
// of a plugin and of the code.
func compacted(b *bundle, n int) events.SessionID {
	b.t.Helper()
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m"}, Options: map[string]string{"memory": `{"n":1}`}})
	b.say(id, "left", "behind")
	must(b.t, "branch", b.BranchTo(b.ctx, id, "left"), nil)
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%d", i)
	}
	b.say(id, list...)
	must(b.t, "options", b.SetProtocolOptions(b.ctx, id, json.RawMessage(`{"deep":true}`), false), nil)
	_, err := b.OpenFrame(b.ctx, id, api.FrameRequest{Frame: "X", Reason: "compaction", Keep: events.NodeID(list[n-2]), Nodes: says("summary")})
	must(b.t, "open", err, nil)
	b.commitWith(id, &events.FrameStateSaved{State: []byte("code")})
	b.commitWith(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 7, State: []byte("mine")})
	b.say(id, "after")
	return id
}

// TestCopies copies a compacted session in every way, from the fold and from a snapshot, short and long.
func TestCopies(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 200} {
		for name, way := range ways {
			for _, projected := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s_%d_%t", name, n, projected), func(t *testing.T) {
					t.Parallel()
					b := setupIdle(t, slices.Repeat([]step{reply(text("on"))}, 5)...)
					id := compacted(b, n)
					if projected {
						saved(b, id)
					}
					from := b.state(id)
					c, err := way.copy(b, id)
					must(t, "copy", err, nil)
					isCopy(b, c, from, way.path)
					b.work(b.bus)
					b.run(c, "t", text("go"))
					equalLists(t, "messages", b.messages(c)[:4], []string{"user summary", fmt.Sprintf("user m%d", n-2), fmt.Sprintf("user m%d", n-1), "user after"})
					equalLists(t, "what the model read", b.model.prompt(len(b.model.asked()) - 1)[:4], b.messages(c)[:4])
					verified(t, b.bus, c)
				})
			}
		}
	}
}

// isCopy wants all in the copy that a copy has, on a host that has never seen either.
func isCopy(b *bundle, c events.SessionID, from *projector.State, path bool) {
	b.t.Helper()
	s, err := b.otherHost().State(b.ctx, c)
	must(b.t, "state of the copy", err, nil)
	equal(b.t, "forked from", s.Forked.Session, from.Session)
	then, err := b.StateAt(b.ctx, from.Session, s.Forked.Seq)
	must(b.t, "state of then", err, nil)
	must(b.t, "base", s.CheckBase(then), nil)
	equal(b.t, "frames", len(s.Frames), 2)
	f := s.Frame()
	equal(b.t, "frame", f.ID, "X")
	equal(b.t, "kept from", f.Keep, from.Frame().Keep)
	equal(b.t, "options", string(f.Options), `{"deep":true}`)
	equal(b.t, "state of the code", string(f.State), "code")
	equal(b.t, "plugin's state", string(s.Plugin("memory").State), "mine")
	v, err := s.View()
	must(b.t, "view", err, nil)
	want, err := from.View()
	must(b.t, "view", err, nil)
	equalLists(b.t, "messages", transcript(v.Messages), transcript(want.Messages))
	side, err := s.Node("behind")
	must(b.t, "node of the other branch", err, nil)
	equal(b.t, "other branches are there", side != nil, !path)
	equal(b.t, "usage", s.Usage().Total, events.Usage{})
}

// TestCopyOneCommit forks what was too much for a commit: many messages with many small tool results.
func TestCopyOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("on")))
	id := b.open(api.CreateRequest{})
	var nodes []api.AppendNode
	for i := range 130 {
		m := events.Message{ID: events.MessageID(fmt.Sprintf("r%d", i)), Role: events.RoleUser}
		for j := range 64 {
			m.Parts = append(m.Parts, events.Part{Kind: events.PartToolResult, Call: events.CallID(fmt.Sprintf("c%d-%d", i, j)), Tool: "look", Text: strings.Repeat("r", 64)})
		}
		nodes = append(nodes, api.AppendNode{Message: &m})
		if len(nodes) == 10 {
			_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: nodes})
			must(t, "append", err, nil)
			nodes = nil
		}
	}
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	equal(t, "commits", b.last(fork), 1)
	must(t, "base", b.state(fork).CheckBase(b.state(id)), nil)
	equal(t, "end", b.run(fork, "t1", text("go")).End, events.EndFinished)
}

// TestCodeBranch has the branch of a busy session know the variables of the protocol code.
func TestCodeBranch(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b, id, _ := setupCode(t, program("x = 41"), reply(text("kept")), hangs(begun), program("print(x + 1)"), reply(text("there")))
	b.run(id, "t1", text("go"))
	b.submit(id, "t2", text("wait"))
	receive(b, "model call of t2", begun)
	_, err := b.Submit(b.ctx, id, asksBusy("t3", api.WhenBusyBranch))
	must(t, "submit", err, nil)
	branch := session.BranchOf(id, "t3")
	b.await(id, "t3 is elsewhere", func(s *projector.State) bool { r, _ := s.Record("t3"); return r != nil })
	equal(t, "end", b.ended(branch, "t3").End, events.EndFinished)
	equalLists(t, "outputs", b.outputs(branch), []string{"42\n"})
}

// long is a session whose snapshot has pages.
func long(b *bundle) events.SessionID {
	b.t.Helper()
	id := b.open(api.CreateRequest{})
	const each = 100
	for i := range projector.PageSegments*projector.SegmentNodes/each + 2 {
		list := make([]string, each)
		for j := range list {
			list[j] = fmt.Sprintf("m%d-%d", i, j)
		}
		b.say(id, list...)
	}
	saved(b, id)
	return id
}

// saved gives a session its snapshot.
func saved(b *bundle, id events.SessionID) {
	b.t.Helper()
	s, err := follow.Whole(b.ctx, b.bus, id)
	must(b.t, "open", err, nil)
	_, err = follow.Save(b.ctx, b.bus, s)
	must(b.t, "save", err, nil)
}

// TestCopyOutlives erases the ancestor, and lets the sweep remove what nobody refers to: the fork stays whole. Then
// it erases the fork, and nothing is left.
func TestCopyOutlives(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := long(b)
	_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{
		ID: "big", Role: events.RoleUser, Parts: []events.Part{text(strings.Repeat("x", 2*blob.InlineBytes))},
	}}}})
	must(t, "append", err, nil)
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	again, err := b.Fork(b.ctx, fork, api.CreateRequest{})
	must(t, "fork of the fork", err, nil)
	want := b.onPath(id)
	sweep := func(at time.Duration) {
		t.Helper()
		s := follow.NewBlobs(b.bus)
		for _, h := range []time.Duration{0, 13} {
			_, err := s.Sweep(b.ctx, time.Unix(0, 0).Add(at+h*time.Hour))
			must(t, "sweep", err, nil)
		}
	}
	for _, gone := range []events.SessionID{id, fork} {
		_, err = b.Erase(b.ctx, gone, "asked to")
		must(t, "erase", err, nil)
		sweep(0)
		s, err := b.otherHost().State(b.ctx, again)
		must(t, "state", err, nil)
		path, err := s.Path()
		must(t, "path", err, nil)
		equal(t, "nodes", len(path), len(want))
		body, err := blob.Fill(b.ctx, b.bus, []events.Message{path[len(path)-1].Message})
		must(t, "body", err, nil)
		equal(t, "body", len(body[0].Parts[0].Text), 2*blob.InlineBytes)
		must(t, "check", s.Check(), nil)
		verified(t, b.bus, again)
	}
	_, err = b.Erase(b.ctx, again, "asked to")
	must(t, "erase", err, nil)
	sweep(0)
	equal(t, "blobs left", len(b.blobs()), 0)
}

// TestCopyWithoutBase loses a base: the session says so, and is never read as an empty one.
func TestCopyWithoutBase(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "A")
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	store, err := b.jetstream().ObjectStore(b.ctx, "lash-blobs")
	must(t, "object store", err, nil)
	for _, info := range b.blobs() {
		must(t, "delete", store.Delete(b.ctx, info.Name), nil)
	}
	h := b.otherHost()
	for what, do := range map[string]func() error{
		"state":  func() error { _, err := h.State(b.ctx, fork); return err },
		"view":   func() error { _, err := h.View(b.ctx, fork); return err },
		"at":     func() error { _, err := h.StateAt(b.ctx, fork, 1); return err },
		"submit": func() error { _, err := h.Submit(b.ctx, fork, asksTurn("t1", "go")); return err },
		"fork":   func() error { _, err := h.Fork(b.ctx, fork, api.CreateRequest{}); return err },
	} {
		missing, ok := errors.AsType[*projector.MissingBaseError](do())
		if !ok || missing.Session != fork {
			t.Errorf("%s: got %v, want a missing base", what, do())
		}
	}
	equal(t, "commits", b.last(fork), 1)
}

// TestCopyArchive reads a fork from its archive alone.
func TestCopyArchive(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	fork, err := b.Fork(b.ctx, long(b), api.CreateRequest{})
	must(t, "fork", err, nil)
	b.say(fork, "own")
	want := b.state(fork)
	var file bytes.Buffer
	_, err = archive.Write(b.ctx, b.bus.Log(), b.bus, fork, &file)
	must(t, "export", err, nil)
	a, err := events.ReadArchive(&file, math.MaxInt32)
	must(t, "read", err, nil)
	got, err := follow.At(b.ctx, a.Log, bodies(a.Blobs), fork, math.MaxUint64)
	must(t, "fold", err, nil)
	equal(t, "state", bytes.Equal(encoded(t, got), encoded(t, want)), true)
	must(t, "check", got.Check(), nil)
}

// bodies are those of an archive.
type bodies map[string][]byte

func (l bodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := l[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

// TestCopyKilledAnywhere kills a host at each request of a fork, before it and after it: there is no session of the id
// or a whole one, and whoever repeats it has it.
func TestCopyKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late_%t", late), func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			id := compacted(b, 100)
			from := b.state(id)
			k := 1
			for finished := false; !finished; k++ {
				c := events.SessionID(fmt.Sprintf("copy-%d", k))
				req := api.CreateRequest{ID: c, Start: api.StartExisting, From: id, Parent: id, Plugins: api.PluginsFork}
				finished = bustest.KilledAt(t, b.server, k, late, func(ctx context.Context, victim *bus.Bus) error {
					_, err := b.newHost(victim).Create(ctx, req)
					return err
				})
				_, err := b.otherHost().State(b.ctx, c)
				if errors.Is(err, events.ErrNoSession) {
					_, err = b.Create(b.ctx, req)
				}
				must(t, "create after the kill", err, nil)
				isCopy(b, c, from, false)
				equal(t, "commits", b.last(c), 1)
			}
			if k < 5 {
				t.Errorf("it took fewer than %d requests, want more", k)
			}
		})
	}
}
