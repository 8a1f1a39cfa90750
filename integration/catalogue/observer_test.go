package catalogue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
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
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func observerEntries() []entry {
	return []entry{
		{"S12", "cursor resumes or is refused", "a cursor that is valid, one whose deltas were trimmed, one of another session, garbage", "subscribe", "resume / gap and the whole / error / error", testCursors},
		{"S13", "late observer converges", "an observer that joins late", "it folds what it sees", "converges to the same final state", testLateObserver},
		{"S14", "turn succeeds without the live stream", "the live replay store is down", "a turn", "succeeds", testNoReplayStore},
		{"S15", "lost claim commits nothing", "a claim that is lost in the middle of a model call", "the reply comes", "lost, not cancelled; nothing committed", testClaimLost},
		{"S16", "second resolution is refused", "a pending call", "resolved twice", "accepted, then already resolved", testResolvedTwice},
		{"S17", "unknown commit version is refused", "a commit of an unknown version", "load", "typed error, no partial load", testFutureVersion},
		{"S18", "abandoned task has evidence", "an abandoned task", "listed", "evidence present", testAbandonedEvidence},
		{"S19", "repeated wake is queued once", "the same wake several times", "enqueued", "one queued wake", testWakesOnce},
		{"S20", "dead provider does not block the queue", "a provider that is down", "the queue is drained", "each turn ends, queue not stuck", testProviderDown},
		{"S21", "unreferenced blob is collected", "a blob written, its commit lost", "garbage is collected", "blob collected, session readable", testLostBlob},
		{"S22", "missing blob of an old branch is ignored", "bodies of an abandoned branch are gone", "load the active path", "unaffected", testBranchRemoved},
	}
}

// trim empties the delta stream, as its age limit does.
func trim(b *harness.System) {
	b.T.Helper()
	stream, err := b.JetStream().Stream(b.Ctx, "lash-delta")
	runtest.WantError(b.T, "delta stream", err, nil)
	runtest.WantError(b.T, "purge", stream.Purge(b.Ctx), nil)
}

func testCursors(t *testing.T) {
	b := harness.StartIdle(t)
	one, more, seen := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.StartStreaming(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("one "))
		close(one)
		select {
		case <-more:
		case <-ctx.Done():
		}
		sink(harness.TextDelta("two"))
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return harness.StreamedReply("one two")
	})
	id, other := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	harness.Receive(b, "the first delta", one)
	started := b.AwaitState(id, "the start", func(s *projector.State) bool { return s.Turn() != nil }).Seq
	b.AwaitState(id, "the delta kept", func(*projector.State) bool {
		for _, err := range b.Bus.Deltas(b.Ctx, id, "t1", 0) {
			return err == nil
		}
		return false
	})
	trim(b)
	list, err := harness.Observations(b.Ctx, b.OtherHost(), id, started-1, func(o api.Observed) bool {
		if o.Seq == started { // it receives what follows
			close(more)
		}
		if o.Delta != nil {
			close(seen)
		}
		return o.Seq > started
	})
	runtest.WantError(t, "observe", err, nil)
	last := b.LastSeq(id)
	runtest.EqualLists(t, "from a cursor whose deltas were trimmed", list, []string{fmt.Sprint(started), "gap", `"two"`, fmt.Sprint(last)})

	list, err = harness.Observations(b.Ctx, b.OtherHost(), id, started, harness.UpTo(last))
	runtest.WantError(t, "observe", err, nil)
	runtest.EqualLists(t, "from a valid cursor", list, harness.Seqs(started+1, last))

	for what, cursor := range map[string]events.Seq{"another session's cursor": last, "garbage": math.MaxUint64} { // the HTTP API refuses everything but a number
		_, err = harness.Observations(b.Ctx, b.Host, other, cursor, harness.UpTo(last))
		if _, ok := errors.AsType[*api.CursorError](err); !ok {
			t.Errorf("from %s: got %v, want a CursorError", what, err)
		}
	}
}

func testLateObserver(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("a"))
	b.RunTurn(id, "t2", harness.Text("b"))
	h, folded := b.OtherHost(), projector.New(id)
	hookCalled := false
	for o, err := range h.Observe(b.Ctx, id, 0) {
		runtest.WantError(t, "observe", err, nil)
		if o.Commit == nil {
			continue
		}
		runtest.WantError(t, "fold", folded.Apply(events.Entry{Seq: o.Seq, Commit: o.Commit}), nil)
		if folded.Turns == 2 && folded.Idle() && !hookCalled { // it has caught up: the rest is live
			hookCalled = true
			b.StartTurn(id, "t3", harness.Text("c"))
		}
		if folded.Turns == 3 && folded.Idle() {
			break
		}
	}
	now := b.StateOf(id)
	runtest.Equal(t, "sequence", folded.Seq, now.Seq)
	runtest.Equal(t, "state", bytes.Equal(harness.EncodeState(t, folded), harness.EncodeState(t, now)), true)
}

func testNoReplayStore(t *testing.T) {
	b := harness.StartIdle(t)
	runtest.WantError(t, "delete the delta stream", b.JetStream().DeleteStream(b.Ctx, "lash-delta"), nil)
	b.StartStreaming(func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("lost"))
		return harness.StreamedReply("whole")
	})
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant whole"})
	list, err := harness.Observations(b.Ctx, b.OtherHost(), id, 0, harness.UpTo(b.LastSeq(id)))
	runtest.WantError(t, "observe", err, nil)
	runtest.EqualLists(t, "commits seen", list, harness.Seqs(1, b.LastSeq(id)))
}

func testClaimLost(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
		close(started)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text("too late")}}}, nil
	}, harness.Reply(harness.Text("again")))
	kill := b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the model call", started)
	b.CommitToTurn(id, &events.TurnStarted{Attempt: 2, Worker: "B"})
	took := b.LastSeq(id)
	close(release)
	kill()
	runtest.Equal(t, "sequence after the old owner's reply", b.LastSeq(id), took)
	b.StartWorker(b.Bus)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	runtest.Equal(t, "cancels recorded", len(harness.Find[*events.TurnCancelRequested](b, id)), 0)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant again"})
}

func testResolvedTwice(t *testing.T) {
	b, id, kill := harness.StartPending(t, harness.Reply(harness.Text("done")))
	kill()
	runtest.WantError(t, "first", b.ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: "yes"}), nil)
	runtest.WantError(t, "second", b.OtherHost().ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: "no"}), api.ErrResolved)
	b.StartWorker(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.WantError(t, "after its turn", b.ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: "no"}), api.ErrUnknownTurn)
	runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k=yes")
}

func testFutureVersion(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "a")
	last := b.LastSeq(id)
	data, err := events.Encode(&events.Commit{
		ID: "later", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.SessionClosed{})},
	})
	runtest.WantError(t, "encode", err, nil)
	at := bytes.Index(data, []byte("\xa1f")) // the format's field, and its number
	data[at+2] = 0x7f
	_, err = b.JetStream().Publish(b.Ctx, "lash.s."+string(id)+".session", data)
	runtest.WantError(t, "publish", err, nil)
	s, err := b.OtherHost().State(b.Ctx, id)
	runtest.WantError(t, "load", err, events.ErrFutureVersion)
	runtest.Equal(t, "state of a failed load", s == nil, true)
	_, err = b.OtherHost().AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("b")})
	runtest.WantError(t, "append", err, events.ErrFutureVersion)
	runtest.Equal(t, "sequence", b.LastSeq(id), last+1)
	_, err = follow.Open(b.Ctx, b.Bus, id)
	runtest.WantError(t, "open", err, events.ErrFutureVersion)
}

func testAbandonedEvidence(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	secondBus := bustest.Open(t, b.Server)
	deadTasks, _ := b.StartTasks(secondBus, nil)
	b.Spawn(deadTasks, id, "closure", harness.GatedTask(nil))
	secondBus.Close()
	b.StartTasks(bustest.Open(t, b.Server), nil)
	runtest.Equal(t, "summary", b.AwaitTask(id, "closure", events.TaskFailed).Summary, "abandoned: worker "+string(deadTasks.ID())+" is gone")
	var last *events.Commit
	for e, err := range b.Bus.Log().Read(b.Ctx, id, b.LastSeq(id)) {
		runtest.WantError(t, "read", err, nil)
		last = e.Commit
	}
	runtest.Equal(t, "actor of the evidence", last.Actor.ID != "", true)
}

func testWakesOnce(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("woken")))
	id := b.Open(api.CreateRequest{})
	for _, h := range []*session.Host{b.Host, b.OtherHost(), b.OtherHost()} {
		_, err := h.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("news")}}})
		runtest.WantError(t, "submit", err, nil)
	}
	b.AwaitPolling("a wake", func() bool { return b.HasWake(id) })
	info, err := b.JetStream().Stream(b.Ctx, "lash-work")
	runtest.WantError(t, "work stream", err, nil)
	runtest.Equal(t, "messages in the queue", info.CachedInfo().State.Msgs, 1)
	b.StartWorker(b.Bus)
	b.AwaitTurn(id, "t1")
	runtest.WantError(t, "wake once more, after it", b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	b.AwaitUnqueued(id)
	runtest.Equal(t, "turns", b.StateOf(id).Turns, 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user news", "assistant woken"})
}

func testProviderDown(t *testing.T) {
	down := harness.Fail(llm.KindServer, "overloaded")
	b := harness.StartIdle(t, down, down, down, down, down, down, down, down, harness.Reply(harness.Text("back"))) // four tries a turn
	id := b.Open(api.CreateRequest{})
	for _, turn := range []events.TurnID{"t1", "t2", "t3"} {
		b.StartTurn(id, turn, harness.Text("go"))
	}
	b.StartWorker(b.Bus)
	for turn, want := range map[events.TurnID]events.TurnEnd{"t1": events.EndProviderError, "t2": events.EndProviderError, "t3": events.EndFinished} {
		runtest.Equal(t, "end of "+string(turn), b.AwaitTurn(id, turn).End, want)
	}
	b.AwaitUnqueued(id)
	runtest.Equal(t, "turns", b.StateOf(id).Turns, 3)
}

// testLostBlob kills a host at each request of an append with a large body.
func testLostBlob(t *testing.T) {
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	large := func(name string) api.AppendNodesRequest {
		body := name + strings.Repeat("x", 2*events.MaxEventBytes)
		return api.AppendNodesRequest{Nodes: []api.AppendNode{
			{Message: &events.Message{ID: events.MessageID(name), Role: events.RoleUser, Parts: []events.Part{harness.Text(body)}}},
		}}
	}
	_, err := b.AppendNodes(b.Ctx, id, large("kept"))
	runtest.WantError(t, "append", err, nil)
	_, err = b.Bus.PutBlob(b.Ctx, bytes.Repeat([]byte("lost"), events.MaxEventBytes)) // and its host died
	runtest.WantError(t, "put blob", err, nil)
	lost := 1
	for k, over := 1, false; !over; k++ {
		before, known := len(b.Blobs()), b.LastSeq(id)
		over = bustest.KilledAt(t, b.Server, k, true, func(ctx context.Context, victim *bus.Bus) error {
			_, err := b.NewHost(victim).AppendNodes(ctx, id, large(fmt.Sprint("m", k)))
			return err
		})
		if b.LastSeq(id) == known {
			lost += len(b.Blobs()) - before
		}
	}
	v, err := b.OtherHost().View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	sweeper, now := follow.NewBlobSweeper(b.Bus), time.Now()
	_, err = sweeper.Sweep(b.Ctx, now)
	runtest.WantError(t, "first look", err, nil)
	removed, err := sweeper.Sweep(b.Ctx, now.Add(24*time.Hour))
	runtest.WantError(t, "second look", err, nil)
	runtest.Equal(t, "every lost blob collected, and those half written", removed >= lost, true)
	after, err := b.OtherHost().View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "messages", harness.Transcript(after.Messages), harness.Transcript(v.Messages))
	runtest.Equal(t, "blobs left", len(b.Blobs()), len(after.Messages))
}

// testBranchRemoved deletes the body of a message on an abandoned branch.
func testBranchRemoved(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	id := b.Open(api.CreateRequest{})
	b.AppendTexts(id, "A")
	large := strings.Repeat("x", 2*events.MaxEventBytes)
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{
		{Message: &events.Message{ID: "big", Role: events.RoleUser, Parts: []events.Part{harness.Text(large)}}},
	}})
	runtest.WantError(t, "append", err, nil)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, "A"), nil)
	store, err := b.JetStream().ObjectStore(b.Ctx, "lash-blobs")
	runtest.WantError(t, "object store", err, nil)
	list := b.Blobs()
	runtest.Equal(t, "blobs of the branch", len(list), 1)
	runtest.WantError(t, "delete", store.Delete(b.Ctx, list[0].Name), nil)
	h := b.OtherHost()
	v, err := h.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "active path", harness.Transcript(v.Messages), []string{"user A"})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go on")).End, events.EndFinished)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user A", "user go on"})
}
