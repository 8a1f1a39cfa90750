package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/blob"
)

// ways are the ways to copy a session, each with whether it copies the active path only.
var ways = map[string]struct {
	path bool
	copy func(b *harness.System, id events.SessionID) (events.SessionID, error)
}{
	"fork": {true, func(b *harness.System, id events.SessionID) (events.SessionID, error) {
		return b.Fork(b.Ctx, id, api.CreateRequest{Parent: id})
	}},
	"existing": {false, func(b *harness.System, id events.SessionID) (events.SessionID, error) {
		return b.Create(b.Ctx, api.CreateRequest{Start: api.StartExisting, From: id, Parent: id})
	}},
	"current": {false, func(b *harness.System, id events.SessionID) (events.SessionID, error) {
		handle, err := b.CreateFrom(b.Ctx, id, api.CreateRequest{Start: api.StartCurrent})
		return handle.Session, err
	}},
	"snapshot": {false, func(b *harness.System, id events.SessionID) (events.SessionID, error) {
		return b.Create(b.Ctx, api.CreateRequest{Start: api.StartSnapshot, Snapshot: b.StateOf(id), Parent: id})
	}},
	"branch": {false, func(b *harness.System, id events.SessionID) (events.SessionID, error) {
		b.StartTurn(id, "waits", harness.Text("waits"))
		b.StartTurn(id, "behind", harness.Text("behind"))
		s := b.StateOf(id)
		return b.Worker().ContinueInBranch(b.Ctx, id, projector.QueuedTurn{ID: "behind", Behind: "waits", Input: s.Queue[1].Input, Seq: s.Queue[1].Seq})
	}},
}

// settings are one event of each kind that a copy inherits besides its configuration.
func settings() []events.Payload {
	return []events.Payload{
		&events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 7, State: []byte("mine"), Artifacts: []events.Artifact{{Name: "notes", Data: []byte("a")}}},
		&events.ToolSourcesApplied{Sources: []string{"mail"}},
		&events.SessionOverlaid{Tools: []events.ToolEntry{{Name: "extra"}}},
		&events.SessionExtended{Extension: events.Extension{Type: "x", Body: []byte("{}")}},
		&events.ToolStateApplied{Generation: 3, Tools: []events.ToolEntry{{Name: "read_file", Availability: events.AvailOff}}},
	}
}

// TestCopyHasSettings copies a session in every way, with the settings of each kind alone: the copy has them.
func TestCopyHasSettings(t *testing.T) {
	t.Parallel()
	for name, method := range ways {
		for _, given := range settings() {
			t.Run(name+"_"+string(events.Of("", given).Kind), func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t)
				id := b.Open(api.CreateRequest{Config: events.Config{Model: "m"}})
				b.AppendTexts(id, "a")
				b.CommitUnchecked(id, given)
				from := b.StateOf(id)
				c, err := method.copy(b, id)
				runtest.WantError(t, "copy", err, nil)
				harness.EqualSettings(t, name, b.StateOf(c), from)
			})
		}
	}
}

// compacted is a session of n messages on two branches, with a compaction that keeps the last two, options, and
// states of a plugin and of the code.
func compacted(b *harness.System, n int) events.SessionID {
	b.T.Helper()
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m"}, Options: map[string]string{"memory": `{"n":1}`}})
	b.AppendTexts(id, "left", "behind")
	runtest.WantError(b.T, "branch", b.BranchTo(b.Ctx, id, "left"), nil)
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("m%d", i)
	}
	b.AppendTexts(id, list...)
	runtest.WantError(b.T, "options", b.SetProtocolOptions(b.Ctx, id, json.RawMessage(`{"deep":true}`), false), nil)
	_, err := b.OpenFrame(b.Ctx, id, api.FrameRequest{Frame: "X", Reason: "compaction", Keep: events.NodeID(list[n-2]), Nodes: harness.UserMessages("summary")})
	runtest.WantError(b.T, "open", err, nil)
	b.CommitUnchecked(id, &events.FrameStateSaved{State: []byte("code")})
	b.CommitUnchecked(id, &events.PluginStateSaved{Plugin: "memory", Version: "1", Revision: 7, State: []byte("mine")})
	b.AppendTexts(id, "after")
	return id
}

// TestCopyOfCompactedSession copies a compacted session in every way, from the fold and from a snapshot, short and long.
func TestCopyOfCompactedSession(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 200} {
		for name, method := range ways {
			for _, projected := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s_%d_%t", name, n, projected), func(t *testing.T) {
					t.Parallel()
					b := harness.StartIdle(t, slices.Repeat([]harness.Step{harness.Reply(harness.Text("on"))}, 5)...)
					id := compacted(b, n)
					if projected {
						saved(b, id)
					}
					from := b.StateOf(id)
					c, err := method.copy(b, id)
					runtest.WantError(t, "copy", err, nil)
					isCopy(b, c, from, method.path)
					b.StartWorker(b.Bus)
					b.RunTurn(c, "t", harness.Text("go"))
					runtest.EqualLists(t, "messages", b.Messages(c)[:4], []string{"user summary", fmt.Sprintf("user m%d", n-2), fmt.Sprintf("user m%d", n-1), "user after"})
					runtest.EqualLists(t, "what the model read", b.Model.Prompt(len(b.Model.Requests()) - 1)[:4], b.Messages(c)[:4])
					harness.VerifyHistory(t, b.Bus, c)
				})
			}
		}
	}
}

// isCopy checks that the copy has everything a copy must have, on a host that has cached neither session.
func isCopy(b *harness.System, c events.SessionID, from *projector.State, path bool) {
	b.T.Helper()
	s, err := b.OtherHost().State(b.Ctx, c)
	runtest.WantError(b.T, "state of the copy", err, nil)
	runtest.Equal(b.T, "forked from", s.Forked.Session, from.Session)
	then, err := b.StateAt(b.Ctx, from.Session, s.Forked.Seq)
	runtest.WantError(b.T, "state of then", err, nil)
	runtest.WantError(b.T, "base", s.CheckBase(then), nil)
	runtest.Equal(b.T, "frames", len(s.Frames), 2)
	f := s.Frame()
	runtest.Equal(b.T, "frame", f.ID, "X")
	runtest.Equal(b.T, "kept from", f.Keep, from.Frame().Keep)
	runtest.Equal(b.T, "options", string(f.Options), `{"deep":true}`)
	runtest.Equal(b.T, "state of the code", string(f.State), "code")
	runtest.Equal(b.T, "plugin's state", string(s.Plugin("memory").State), "mine")
	v, err := s.View()
	runtest.WantError(b.T, "view", err, nil)
	want, err := from.View()
	runtest.WantError(b.T, "view", err, nil)
	runtest.EqualLists(b.T, "messages", harness.Transcript(v.Messages), harness.Transcript(want.Messages))
	side, err := s.Node("behind")
	runtest.WantError(b.T, "node of the other branch", err, nil)
	runtest.Equal(b.T, "other branches are there", side != nil, !path)
	runtest.Equal(b.T, "usage", s.Usage().Total, events.Usage{})
}

// TestSmokeCopyOneCommit forks a session that is too large for a commit: many messages with many small tool results.
func TestSmokeCopyOneCommit(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{})
	var nodes []api.AppendNode
	for i := range 130 {
		m := events.Message{ID: events.MessageID(fmt.Sprintf("r%d", i)), Role: events.RoleUser}
		for j := range 64 {
			m.Parts = append(m.Parts, events.Part{Kind: events.PartToolResult, Call: events.CallID(fmt.Sprintf("c%d-%d", i, j)), Tool: "look", Text: strings.Repeat("r", 64)})
		}
		nodes = append(nodes, api.AppendNode{Message: &m})
		if len(nodes) == 10 {
			_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: nodes})
			runtest.WantError(t, "append", err, nil)
			nodes = nil
		}
	}
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	runtest.Equal(t, "commits", b.LastSeq(fork), 1)
	runtest.WantError(t, "base", b.StateOf(fork).CheckBase(b.StateOf(id)), nil)
	runtest.Equal(t, "end", b.RunTurn(fork, "t1", harness.Text("go")).End, events.EndFinished)
}

// TestCodeBranch branches a busy session: the branch has the variables of the code protocol.
func TestCodeBranch(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	b, id, _ := harness.StartCode(t, harness.Program("x = 41"), harness.Reply(harness.Text("kept")), harness.Hang(started), harness.Program("print(x + 1)"), harness.Reply(harness.Text("there")))
	b.RunTurn(id, "t1", harness.Text("go"))
	b.StartTurn(id, "t2", harness.Text("wait"))
	harness.Receive(b, "model call of t2", started)
	_, err := b.Submit(b.Ctx, id, harness.TurnWhenBusy("t3", api.WhenBusyBranch))
	runtest.WantError(t, "submit", err, nil)
	branch := session.BranchOf(id, "t3")
	b.AwaitState(id, "t3 is elsewhere", func(s *projector.State) bool { r, _ := s.Record("t3"); return r != nil })
	runtest.Equal(t, "end", b.AwaitTurn(branch, "t3").End, events.EndFinished)
	runtest.EqualLists(t, "outputs", b.Outputs(branch), []string{"42\n"})
}

// long is a session whose snapshot has pages.
func long(b *harness.System) events.SessionID {
	b.T.Helper()
	id := b.Open(api.CreateRequest{})
	const each = 100
	for i := range projector.PageSegments*projector.SegmentNodes/each + 2 {
		list := make([]string, each)
		for j := range list {
			list[j] = fmt.Sprintf("m%d-%d", i, j)
		}
		b.AppendTexts(id, list...)
	}
	saved(b, id)
	return id
}

// saved stores the snapshot of a session.
func saved(b *harness.System, id events.SessionID) {
	b.T.Helper()
	s, err := follow.Whole(b.Ctx, b.Bus, id)
	runtest.WantError(b.T, "open", err, nil)
	_, err = follow.Save(b.Ctx, b.Bus, s)
	runtest.WantError(b.T, "save", err, nil)
}

// TestCopyOutlives erases the ancestor, and lets the sweep remove bodies without a reference: the fork stays
// whole. Then it erases the fork, and no body is left.
func TestCopyOutlives(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := long(b)
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{
		ID: "big", Role: events.RoleUser, Parts: []events.Part{harness.Text(strings.Repeat("x", 2*blob.InlineBytes))},
	}}}})
	runtest.WantError(t, "append", err, nil)
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	again, err := b.Fork(b.Ctx, fork, api.CreateRequest{})
	runtest.WantError(t, "fork of the fork", err, nil)
	want := b.PathNodes(id)
	sweep := func(at time.Duration) {
		t.Helper()
		s := follow.NewBlobSweeper(b.Bus)
		for _, h := range []time.Duration{0, 13} {
			_, err := s.Sweep(b.Ctx, time.Unix(0, 0).Add(at+h*time.Hour))
			runtest.WantError(t, "sweep", err, nil)
		}
	}
	for _, source := range []events.SessionID{id, fork} {
		_, err = b.Erase(b.Ctx, source, "asked to")
		runtest.WantError(t, "erase", err, nil)
		sweep(0)
		s, err := b.OtherHost().State(b.Ctx, again)
		runtest.WantError(t, "state", err, nil)
		path, err := s.Path()
		runtest.WantError(t, "path", err, nil)
		runtest.Equal(t, "nodes", len(path), len(want))
		body, err := blob.Fill(b.Ctx, b.Bus, []events.Message{path[len(path)-1].Message})
		runtest.WantError(t, "body", err, nil)
		runtest.Equal(t, "body", len(body[0].Parts[0].Text), 2*blob.InlineBytes)
		runtest.WantError(t, "check", s.Check(), nil)
		harness.VerifyHistory(t, b.Bus, again)
	}
	_, err = b.Erase(b.Ctx, again, "asked to")
	runtest.WantError(t, "erase", err, nil)
	sweep(0)
	runtest.Equal(t, "blobs left", len(b.Blobs()), 0)
}

// TestCopyWithoutBase loses a base: reads of the session fail with that reason, and never return an empty session.
func TestCopyWithoutBase(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A")
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	store, err := b.JetStream().ObjectStore(b.Ctx, "lash-blobs")
	runtest.WantError(t, "object store", err, nil)
	for _, info := range b.Blobs() {
		runtest.WantError(t, "delete", store.Delete(b.Ctx, info.Name), nil)
	}
	h := b.OtherHost()
	for what, do := range map[string]func() error{
		"state":  func() error { _, err := h.State(b.Ctx, fork); return err },
		"view":   func() error { _, err := h.View(b.Ctx, fork); return err },
		"at":     func() error { _, err := h.StateAt(b.Ctx, fork, 1); return err },
		"submit": func() error { _, err := h.Submit(b.Ctx, fork, harness.TurnRequest("t1", "go")); return err },
		"fork":   func() error { _, err := h.Fork(b.Ctx, fork, api.CreateRequest{}); return err },
	} {
		missing, ok := errors.AsType[*projector.MissingBaseError](do())
		if !ok || missing.Session != fork {
			t.Errorf("%s: got %v, want a missing base", what, do())
		}
	}
	runtest.Equal(t, "commits", b.LastSeq(fork), 1)
}

// TestCopyArchive reads a fork from its archive only.
func TestCopyArchive(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	fork, err := b.Fork(b.Ctx, long(b), api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	b.AppendTexts(fork, "own")
	want := b.StateOf(fork)
	var file bytes.Buffer
	_, err = archive.Write(b.Ctx, b.Bus.Log(), b.Bus, fork, &file)
	runtest.WantError(t, "export", err, nil)
	a, err := events.ReadArchive(&file, math.MaxInt32)
	runtest.WantError(t, "read", err, nil)
	texts := archive.DecryptedBodies(a.Blobs, b.Bus.Keys())
	got, err := follow.At(b.Ctx, archive.Decrypted(a.Log, b.Bus.Keys()), historyBodies(texts), fork, math.MaxUint64)
	runtest.WantError(t, "fold", err, nil)
	runtest.Equal(t, "state", bytes.Equal(harness.EncodeState(t, got), harness.EncodeState(t, want)), true)
	runtest.WantError(t, "check", got.Check(), nil)
}

// bodies are the bodies of an archive.
type historyBodies map[string][]byte

func (l historyBodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := l[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

// TestCopyKilledAnywhere kills a host before each request of a fork. The session of the id is absent or
// whole, and a repeat of the fork succeeds.
func TestCopyKilledAnywhere(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := compacted(b, 100)
	from := b.StateOf(id)
	k := 1
	for finished := false; !finished; k++ {
		c := events.SessionID(fmt.Sprint("copy-", k))
		req := api.CreateRequest{ID: c, Start: api.StartExisting, From: id, Parent: id}
		finished = bustest.KilledAt(t, b.Server, k, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := b.NewHost(victim).Create(ctx, req)
			return err
		})
		_, err := b.OtherHost().State(b.Ctx, c)
		if errors.Is(err, events.ErrNoSession) {
			_, err = b.Create(b.Ctx, req)
		}
		runtest.WantError(t, "create after the kill", err, nil)
		isCopy(b, c, from, false)
		runtest.Equal(t, "commits", b.LastSeq(c), 1)
	}
	if k < 5 {
		t.Errorf("it took fewer than %d requests, want more", k)
	}
}
