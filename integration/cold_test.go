package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// echo answers with what the user said.
func echo(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1]
	return reply(text("re: "+last.Parts[0].Text))(ctx, req)
}

// TestColdUnderLoad archives sessions whenever nothing runs in them, while
// turns are asked for and watched: neither clients nor watchers see any of it.
func TestColdUnderLoad(t *testing.T) {
	t.Parallel()
	const sessions, turns = 3, 20
	b := setup(t, slices.Repeat([]step{echo}, sessions*turns)...)
	ctx, stop := context.WithCancel(b.ctx)
	var cold atomic.Int64
	var archiving, running sync.WaitGroup
	archiving.Go(func() { archiveAlways(ctx, t, b, &cold) })
	for i := range sessions {
		id := b.open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("cold-%d", i))})
		running.Go(func() {
			host, want := b.otherHost(), []string{}
			for n := range turns {
				said := fmt.Sprintf("%s says %d", id, n)
				r, err := host.Run(b.ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{text(said)}}})
				if err != nil || r.Text != "re: "+said {
					t.Errorf("turn %d: got %q, %v", n, r.Text, err)
				}
				want = append(want, "user "+said, "assistant re: "+said)
			}
			equalLists(t, "messages", b.messages(id), want)
		})
		running.Go(func() { watchEnds(t, b, id, turns) })
	}
	running.Wait()
	for i := range sessions {
		b.isCold(events.SessionID(fmt.Sprintf("cold-%d", i)))
	}
	stop()
	archiving.Wait()
	if cold.Load() < sessions {
		t.Errorf("sessions went cold %d times, want more", cold.Load())
	}
	for i := range sessions {
		id := events.SessionID(fmt.Sprintf("cold-%d", i))
		v := projector.NewVerifier(id)
		for entry, err := range b.bus.Log().Read(b.ctx, id, 1) {
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range v.Apply(entry) {
				t.Errorf("session %s at %d: %v", id, entry.Seq, wrong)
			}
		}
	}
}

func archiveAlways(ctx context.Context, t *testing.T, b *bundle, cold *atomic.Int64) {
	other := bustest.Open(t, b.server)
	a := follow.NewArchiver(other, follow.ArchiverConfig{})
	for ctx.Err() == nil {
		for hot, err := range other.Hot(ctx) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("list: %v", err)
			}
			if !hot.Sealed && time.Since(hot.Moved) < 5*time.Millisecond {
				continue // as an archiver does that is told to wait
			}
			done, err := a.Archive(ctx, hot.ID)
			if err != nil && ctx.Err() == nil {
				t.Errorf("archive %s: %v", hot.ID, err)
			}
			if done {
				cold.Add(1)
			}
		}
	}
}

// TestColdNode has a node make what has no work cold, and a turn bring it back.
func TestColdNode(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, echo, echo)
	n, err := workers.NewNode(workers.Config{
		Bus: b.bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Provider: "scripted",
		ArchiveAfter: 50 * time.Millisecond, Logger: zaptest.NewLogger(t),
	})
	must(t, "new node", err, nil)
	must(t, "start", n.Start(b.ctx), nil)
	t.Cleanup(func() { n.Stop(context.WithoutCancel(t.Context())) })
	id := b.open(api.CreateRequest{})
	for _, turn := range []events.TurnID{"t1", "t2"} {
		b.run(id, turn, text("hello"))
		b.isCold(id)
		for b.hot() > 0 && b.ctx.Err() == nil { // the row is written first
			runtime.Gosched()
		}
	}
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant re: hello", "user hello", "assistant re: hello"})
}

func (b *bundle) hot() (n int) {
	for _, err := range b.bus.Hot(b.ctx) {
		if n++; err != nil {
			break // unknown: whoever waits looks again
		}
	}
	return n
}

// watchEnds watches a session until it saw the end of so many turns.
func watchEnds(t *testing.T, b *bundle, id events.SessionID, turns int) {
	ended, next := 0, events.Seq(1)
	for seen, err := range b.otherHost().Observe(b.ctx, id, 0) {
		if err != nil {
			t.Error(err)
			return
		}
		if seen.Commit == nil {
			continue
		}
		equal(t, "sequence", seen.Seq, next)
		next++
		for _, e := range seen.Commit.Events {
			if e.Kind == events.KindTurnCompleted {
				ended++
			}
		}
		if ended == turns {
			return
		}
	}
}

// isCold waits until the directory calls a session cold at its end.
func (b *bundle) isCold(id events.SessionID) {
	b.t.Helper()
	late := time.Now().Add(20 * time.Second)
	for row := b.directory(b.ctx, id); row.Place != follow.PlaceCold || row.Seq != b.last(id); row = b.directory(b.ctx, id) {
		if time.Now().After(late) {
			b.t.Fatalf("row of %s: got %+v, want it cold at %d; hot are %+v", id, row, b.last(id), maps.Collect(b.bus.Hot(b.ctx)))
		}
		runtime.Gosched()
	}
}

func (b *bundle) directory(ctx context.Context, id events.SessionID) (row follow.Directory) {
	stored, err := b.bus.Directory().Get(ctx, id)
	if err == nil && stored.Revision != 0 {
		err = json.Unmarshal(stored.Value, &row)
	}
	if err != nil && ctx.Err() == nil {
		b.t.Error(err)
	}
	return row
}
