package system

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// echo replies with the user's text.
func echo(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	last := req.Messages[len(req.Messages)-1]
	return harness.Reply(harness.Text("re: "+last.Parts[0].Text))(ctx, req)
}

// TestColdUnderLoad archives idle sessions while turns are submitted and watched: neither clients nor watchers
// notice it.
func TestColdUnderLoad(t *testing.T) {
	t.Parallel()
	const sessions, turns = 3, 20
	b := harness.Start(t, slices.Repeat([]harness.Step{echo}, sessions*turns)...)
	ctx, stop := context.WithCancel(b.Ctx)
	var cold atomic.Int64
	var archiving, running sync.WaitGroup
	archiving.Go(func() { archiveAlways(ctx, t, b, &cold) })
	for i := range sessions {
		id := b.Open(api.CreateRequest{ID: events.SessionID(fmt.Sprintf("cold-%d", i))})
		running.Go(func() {
			host, want := b.OtherHost(), []string{}
			for n := range turns {
				text := fmt.Sprintf("%s says %d", id, n)
				r, err := host.Run(b.Ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{harness.Text(text)}}})
				if err != nil || r.Text != "re: "+text {
					t.Errorf("turn %d: got %q, %v", n, r.Text, err)
				}
				want = append(want, "user "+text, "assistant re: "+text)
			}
			runtest.EqualLists(t, "messages", b.Messages(id), want)
		})
		running.Go(func() { watchEnds(t, b, id, turns) })
	}
	running.Wait()
	for i := range sessions {
		b.AwaitCold(events.SessionID(fmt.Sprintf("cold-%d", i)))
	}
	stop()
	archiving.Wait()
	if cold.Load() < sessions {
		t.Errorf("sessions went cold %d times, want more", cold.Load())
	}
	for i := range sessions {
		id := events.SessionID(fmt.Sprintf("cold-%d", i))
		v := projector.NewVerifier(id)
		for entry, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
			runtest.NoError(t, err)
			for _, wrong := range v.Apply(entry) {
				t.Errorf("session %s at %d: %v", id, entry.Seq, wrong)
			}
		}
	}
}

func archiveAlways(ctx context.Context, t *testing.T, b *harness.System, cold *atomic.Int64) {
	other := bustest.Open(t, b.Server)
	a := follow.NewArchiver(other, follow.ArchiverConfig{})
	for ctx.Err() == nil {
		for hot, err := range other.Hot(ctx) {
			if err != nil && ctx.Err() == nil {
				t.Errorf("list: %v", err)
			}
			if !hot.Sealed && hot.Quiet < 5*time.Millisecond {
				continue // as an archiver does that must wait
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

// TestColdNode has a node archive sessions without work, and a turn make them hot again.
func TestColdNode(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, echo, echo)
	n, err := workers.NewNode(workers.Config{
		Bus: b.Bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Provider: "scripted",
		ArchiveAfter: 50 * time.Millisecond, Logger: zaptest.NewLogger(t),
	})
	runtest.WantError(t, "new node", err, nil)
	runtest.WantError(t, "start", n.Start(b.Ctx), nil)
	t.Cleanup(func() { n.Stop(context.WithoutCancel(t.Context())) })
	id := b.Open(api.CreateRequest{})
	for _, turn := range []events.TurnID{"t1", "t2"} {
		b.RunTurn(id, turn, harness.Text("hello"))
		b.AwaitCold(id)
		for hot(b) > 0 && b.Ctx.Err() == nil { // the row is written first
			runtime.Gosched()
		}
	}
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant re: hello", "user hello", "assistant re: hello"})
}

func hot(b *harness.System) (n int) {
	for _, err := range b.Bus.Hot(b.Ctx) {
		if n++; err != nil {
			break // unknown: the caller reads again
		}
	}
	return n
}

// watchEnds watches a session until it has seen the end of that many turns.
func watchEnds(t *testing.T, b *harness.System, id events.SessionID, turns int) {
	ended, next := 0, events.Seq(1)
	for seen, err := range b.OtherHost().Observe(b.Ctx, id, 0) {
		if err != nil {
			t.Error(err)
			return
		}
		if seen.Commit == nil {
			continue
		}
		runtest.Equal(t, "sequence", seen.Seq, next)
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
