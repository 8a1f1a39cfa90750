package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func scaleEntries2() []entry {
	return []entry{
		{"S12", "a cursor that is valid, one whose deltas were trimmed, one of another session, garbage", "subscribe", "resume / gap and the whole / error / error", testCursors},
		{"S13", "an observer that joins late", "it folds what it sees", "converges to the same final state", testLateObserver},
		{"S14", "the live replay store is down", "a turn", "succeeds", testNoReplayStore},
		{"S15", "a claim that is lost in the middle of a model call", "the reply comes", "lost, not cancelled; nothing committed", testClaimLost},
		{"S16", "a pending call", "resolved twice", "accepted, then already resolved", testResolvedTwice},
		{"S17", "a commit of an unknown version", "load", "typed error, no partial load", testFutureVersion},
		{"S18", "an abandoned task", "listed", "evidence present", testAbandonedEvidence},
		{"S19", "the same wake several times", "enqueued", "one queued wake", testWakesOnce},
		{"S20", "a provider that is down", "the queue is drained", "each turn ends, queue not stuck", testProviderDown},
		{"S21", "a blob written, its commit lost", "garbage is collected", "blob collected, session readable", testLostBlob},
		{"S22", "bodies of an abandoned branch are gone", "load the active path", "unaffected", testBranchGone},
	}
}

// trim empties the delta stream, as its age does.
func (b *bundle) trim() {
	b.t.Helper()
	stream, err := b.jetstream().Stream(b.ctx, "lash-delta")
	must(b.t, "delta stream", err, nil)
	must(b.t, "purge", stream.Purge(b.ctx), nil)
}

func (b *bundle) jetstream() jetstream.JetStream {
	b.t.Helper()
	js, err := jetstream.New(b.bus.Conn())
	must(b.t, "jetstream", err, nil)
	return js
}

func testCursors(t *testing.T) {
	b := setupIdle(t)
	one, more, seen := make(chan struct{}), make(chan struct{}), make(chan struct{})
	b.stream(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("one "))
		close(one)
		select {
		case <-more:
		case <-ctx.Done():
		}
		sink(spoken("two"))
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return said("one two")
	})
	id, other := b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	receive(b, "the first delta", one)
	started := b.await(id, "the start", func(s *projector.State) bool { return s.Turn() != nil }).Seq
	b.await(id, "the delta kept", func(*projector.State) bool {
		for _, err := range b.bus.Deltas(b.ctx, id, "t1", 0) {
			return err == nil
		}
		return false
	})
	b.trim()
	list, err := collect(b.ctx, b.otherHost(), id, started-1, func(o api.Observed) bool {
		if o.Seq == started { // it hears what comes from here on
			close(more)
		}
		if o.Delta != nil {
			close(seen)
		}
		return o.Seq > started
	})
	must(t, "observe", err, nil)
	last := b.last(id)
	equalLists(t, "from a cursor whose deltas were trimmed", list, []string{fmt.Sprint(started), "gap", `"two"`, fmt.Sprint(last)})

	list, err = collect(b.ctx, b.otherHost(), id, started, until(last))
	must(t, "observe", err, nil)
	equalLists(t, "from a valid cursor", list, seqs(started+1, last))

	for what, cursor := range map[string]events.Seq{"another session's cursor": last, "garbage": math.MaxUint64} { // what is no number, the HTTP door refuses
		_, err = collect(b.ctx, b.Host, other, cursor, until(last))
		if _, ok := errors.AsType[*api.CursorError](err); !ok {
			t.Errorf("from %s: got %v, want a CursorError", what, err)
		}
	}
}

func testLateObserver(t *testing.T) {
	b := setup(t, reply(text("one")), reply(text("two")), reply(text("three")))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("a"))
	b.run(id, "t2", text("b"))
	h, folded := b.otherHost(), projector.New(id)
	asked := false
	for o, err := range h.Observe(b.ctx, id, 0) {
		must(t, "observe", err, nil)
		if o.Commit == nil {
			continue
		}
		must(t, "fold", folded.Apply(events.Entry{Seq: o.Seq, Commit: o.Commit}), nil)
		if folded.Turns == 2 && folded.Idle() && !asked { // it has caught up: the rest is live
			asked = true
			b.submit(id, "t3", text("c"))
		}
		if folded.Turns == 3 && folded.Idle() {
			break
		}
	}
	now := b.state(id)
	equal(t, "sequence", folded.Seq, now.Seq)
	equal(t, "state", bytes.Equal(encoded(t, folded), encoded(t, now)), true)
}

func testNoReplayStore(t *testing.T) {
	b := setupIdle(t)
	must(t, "delete the delta stream", b.jetstream().DeleteStream(b.ctx, "lash-delta"), nil)
	b.stream(func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("lost"))
		return said("whole")
	})
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant whole"})
	list, err := collect(b.ctx, b.otherHost(), id, 0, until(b.last(id)))
	must(t, "observe", err, nil)
	equalLists(t, "commits seen", list, seqs(1, b.last(id)))
}

func testClaimLost(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
		close(begun)
		select {
		case <-release:
		case <-ctx.Done():
		}
		return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text("too late")}}}, nil
	}, reply(text("again")))
	kill := b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "the model call", begun)
	b.commitTurn(id, &events.TurnStarted{Attempt: 2, Worker: "B", Job: "t1"})
	took := b.last(id)
	close(release)
	kill()
	equal(t, "sequence after the old owner's reply", b.last(id), took)
	b.work(b.bus)
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	equal(t, "cancels recorded", len(find[*events.TurnCancelRequested](b, id)), 0)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant again"})
}

func testResolvedTwice(t *testing.T) {
	b, id, kill := setupPending(t, reply(text("done")))
	kill()
	must(t, "first", b.ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: "yes"}), nil)
	must(t, "second", b.otherHost().ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: "no"}), api.ErrResolved)
	b.work(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	must(t, "after its turn", b.ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: "no"}), api.ErrUnknownTurn)
	equal(t, "what the model reads", b.model.prompt(1)[2], "user k=yes")
}

func testFutureVersion(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.say(id, "a")
	last := b.last(id)
	data, err := events.Encode(&events.Commit{
		ID: "later", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.SessionClosed{})},
	})
	must(t, "encode", err, nil)
	at := bytes.Index(data, []byte("\xa1f")) // the format's field, and its number
	data[at+2] = 0x7f
	_, err = b.jetstream().Publish(b.ctx, "lash.s."+string(id)+".session", data)
	must(t, "publish", err, nil)
	s, err := b.otherHost().State(b.ctx, id)
	must(t, "load", err, events.ErrFutureVersion)
	equal(t, "state of a failed load", s == nil, true)
	_, err = b.otherHost().AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("b")})
	must(t, "append", err, events.ErrFutureVersion)
	equal(t, "sequence", b.last(id), last+1)
	_, err = follow.Open(b.ctx, b.bus, id)
	must(t, "open", err, events.ErrFutureVersion)
}

func testAbandonedEvidence(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	away := bustest.Open(t, b.server)
	dead, _ := b.tasks(away, nil)
	b.spawn(dead, id, "closure", gated(nil))
	away.Close()
	b.tasks(bustest.Open(t, b.server), nil)
	equal(t, "summary", b.taskIs(id, "closure", events.TaskFailed).Summary, "abandoned: worker "+string(dead.ID())+" is gone")
	var last *events.Commit
	for e, err := range b.bus.Log().Read(b.ctx, id, b.last(id)) {
		must(t, "read", err, nil)
		last = e.Commit
	}
	equal(t, "actor of the evidence", last.Actor.ID != "", true)
}

func testWakesOnce(t *testing.T) {
	b := setupIdle(t, reply(text("woken")))
	id := b.open(api.CreateRequest{})
	for _, h := range []*session.Host{b.Host, b.otherHost(), b.otherHost()} {
		_, err := h.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("news")}}})
		must(t, "submit", err, nil)
	}
	b.until("a wake", func() bool { return b.woken(id) })
	info, err := b.jetstream().Stream(b.ctx, "lash-work")
	must(t, "work stream", err, nil)
	equal(t, "messages in the queue", info.CachedInfo().State.Msgs, 1)
	b.work(b.bus)
	b.ended(id, "t1")
	must(t, "wake once more, after it", b.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	b.unqueued(id)
	equal(t, "turns", b.state(id).Turns, 1)
	equalLists(t, "messages", b.messages(id), []string{"user news", "assistant woken"})
}

func testProviderDown(t *testing.T) {
	down := fails(llm.KindServer, "overloaded")
	b := setupIdle(t, down, down, down, down, down, down, down, down, reply(text("back"))) // four tries a turn
	id := b.open(api.CreateRequest{})
	for _, turn := range []events.TurnID{"t1", "t2", "t3"} {
		b.submit(id, turn, text("go"))
	}
	b.work(b.bus)
	for turn, want := range map[events.TurnID]events.TurnEnd{"t1": events.EndProviderError, "t2": events.EndProviderError, "t3": events.EndFinished} {
		equal(t, "end of "+string(turn), b.ended(id, turn).End, want)
	}
	b.unqueued(id)
	equal(t, "turns", b.state(id).Turns, 3)
}

// testLostBlob kills a host at each request of an append with a large body.
func testLostBlob(t *testing.T) {
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	large := func(name string) api.AppendNodesRequest {
		body := name + strings.Repeat("x", 2*events.MaxEventBytes)
		return api.AppendNodesRequest{Nodes: []api.AppendNode{
			{Message: &events.Message{ID: events.MessageID(name), Role: events.RoleUser, Parts: []events.Part{text(body)}}},
		}}
	}
	_, err := b.AppendNodes(b.ctx, id, large("kept"))
	must(t, "append", err, nil)
	_, err = b.bus.PutBlob(b.ctx, bytes.Repeat([]byte("lost"), events.MaxEventBytes)) // and its host died
	must(t, "put blob", err, nil)
	lost := 1
	for k, over := 1, false; !over; k++ {
		before, known := len(b.blobs()), b.last(id)
		over = bustest.KilledAt(t, b.server, k, true, func(ctx context.Context, victim *bus.Bus) error {
			_, err := b.newHost(victim).AppendNodes(ctx, id, large(fmt.Sprint("m", k)))
			return err
		})
		if b.last(id) == known {
			lost += len(b.blobs()) - before
		}
	}
	v, err := b.otherHost().View(b.ctx, id)
	must(t, "view", err, nil)
	sweeper, now := follow.NewBlobs(b.bus), time.Now()
	_, err = sweeper.Sweep(b.ctx, now)
	must(t, "first look", err, nil)
	removed, err := sweeper.Sweep(b.ctx, now.Add(24*time.Hour))
	must(t, "second look", err, nil)
	equal(t, "every lost blob collected, and those half written", removed >= lost, true)
	after, err := b.otherHost().View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "messages", transcript(after.Messages), transcript(v.Messages))
	equal(t, "blobs left", len(b.blobs()), len(after.Messages))
}

// blobs lists the bodies in the object store.
func (b *bundle) blobs() []*jetstream.ObjectInfo {
	b.t.Helper()
	store, err := b.jetstream().ObjectStore(b.ctx, "lash-blobs")
	must(b.t, "object store", err, nil)
	list, err := store.List(b.ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil
	}
	must(b.t, "blobs", err, nil)
	return list
}

// testBranchGone loses the body of a message on a branch that was left.
func testBranchGone(t *testing.T) {
	b := setup(t, reply(text("hi")))
	id := b.open(api.CreateRequest{})
	b.say(id, "A")
	large := strings.Repeat("x", 2*events.MaxEventBytes)
	_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{
		{Message: &events.Message{ID: "big", Role: events.RoleUser, Parts: []events.Part{text(large)}}},
	}})
	must(t, "append", err, nil)
	must(t, "branch", b.BranchTo(b.ctx, id, "A"), nil)
	store, err := b.jetstream().ObjectStore(b.ctx, "lash-blobs")
	must(t, "object store", err, nil)
	list := b.blobs()
	equal(t, "blobs of the branch", len(list), 1)
	must(t, "delete", store.Delete(b.ctx, list[0].Name), nil)
	h := b.otherHost()
	v, err := h.View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "active path", transcript(v.Messages), []string{"user A"})
	equal(t, "end", b.run(id, "t1", text("go on")).End, events.EndFinished)
	equalLists(t, "prompt", b.model.prompt(0), []string{"user A", "user go on"})
}
