package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// A large session has nodes just below the size from which a body moves to a blob, so all of it is in the log.
const (
	largeBytes   = 500 << 20
	largeNode    = 60 << 10
	largeCommit  = 3 // nodes
	neighbourFor = 20 * time.Second
)

// neighbour measures turns of a small session, first alone. Then the same node, without a pause, reads a session of
// 500 MB from its beginning, forks it, archives the fork and erases the fork.
func (r *runner) neighbour(ctx context.Context) error {
	return r.withRig(ctx, busembed.ProfileInterval, r.neighbourOn)
}

func (r *runner) neighbourOn(ctx context.Context, g *rig) error {
	for _, id := range []events.SessionID{"small", "large"} {
		if _, err := g.host.Create(ctx, api.CreateRequest{ID: id}); err != nil {
			return err
		}
	}
	if err := g.grow(ctx, "large", r.scaled(largeBytes)); err != nil {
		return err
	}
	if err := g.rests(ctx, "large"); err != nil {
		return err
	}
	const before = 50 // turns that warm up
	for range before {
		if err := g.turn(ctx, "small"); err != nil {
			return err
		}
	}
	took := neighbourFor / time.Duration(max(r.Scale, 1))
	until := make(chan struct{})
	time.AfterFunc(took, func() { close(until) })
	alone, err := g.turnsUntil(ctx, until)
	if err != nil {
		return err
	}
	work := &heavy{g: g, log: g.inner.Log(), enough: make(chan struct{})}
	work.start(ctx, took)
	during, err := g.turnsUntil(ctx, work.enough)
	if err = errors.Join(err, work.stop()); err != nil {
		return err
	}
	f := r.report.Lash
	f["neighbour_turn_alone_p50_ms"], f["neighbour_turn_alone_p99_ms"] = alone.p50(), alone.p99()
	f["neighbour_turn_beside_p50_ms"], f["neighbour_turn_beside_p99_ms"] = during.p50(), during.p99()
	f["neighbour_turn_beside_max_ms"] = ms(slices.Max(during))
	f["neighbour_turns_alone"], f["neighbour_turns_beside"] = float64(len(alone)), float64(len(during))
	f["neighbour_large_reads"], f["neighbour_large_archives"] = float64(work.reads.Load()), float64(work.archives.Load())
	r.report.NeighbourRatio = during.p99() / alone.p99()
	return g.hasTurns(ctx, "small", before+len(alone)+len(during))
}

// grow appends nodes of size bytes.
func (g *rig) grow(ctx context.Context, id events.SessionID, size int) error {
	for n := 0; n*largeNode < size; {
		var req api.AppendNodesRequest
		for range largeCommit {
			text := fmt.Sprintf("%08d ", n) + strings.Repeat("large ", largeNode/6)[:largeNode-9]
			req.Nodes = append(req.Nodes, api.AppendNode{Kind: events.NodeMessage, Message: &events.Message{
				Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}},
			}})
			n++
		}
		if _, err := g.host.AppendNodes(ctx, id, req); err != nil {
			return err
		}
	}
	return nil
}

// rests waits until the node's projector has finished with a session: only a few commits follow its snapshot.
func (g *rig) rests(ctx context.Context, id events.SessionID) error {
	const tail = 64
	last, err := g.client.Log().Last(ctx, id)
	for err == nil {
		var stored *follow.Snapshot
		stored, err = follow.Stored(ctx, g.client, id)
		if last <= tail || stored != nil && stored.Seq+tail >= last {
			return err
		}
		if err == nil && !delay.Sleep(ctx, 100*time.Millisecond) {
			err = context.Cause(ctx)
		}
	}
	return err
}

// turnsUntil runs turns of the small session, one after the other, until end.
func (g *rig) turnsUntil(ctx context.Context, end <-chan struct{}) (took samples, err error) {
	for err == nil {
		select {
		case <-end:
			return took, nil
		default:
			err = took.timed(func() error { return g.turn(ctx, "small") })
		}
	}
	return took, err
}

// hasTurns checks the history: each requested turn has ended there, once.
func (g *rig) hasTurns(ctx context.Context, id events.SessionID, want int) error {
	requested, ended := make(map[events.TurnID]int), make(map[events.TurnID]int)
	for entry, err := range g.client.Log().Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		for i := range entry.Commit.Events {
			switch ev := &entry.Commit.Events[i]; ev.Kind { //nolint:exhaustive // the others are parts of turns
			case events.KindTurnRequested:
				requested[ev.Turn]++
			case events.KindTurnCompleted:
				ended[ev.Turn]++
			}
		}
	}
	for turn := range requested {
		if requested[turn] != 1 || ended[turn] != 1 {
			return fmt.Errorf("turn %s was asked for %d times and ended %d times", turn, requested[turn], ended[turn])
		}
	}
	if len(requested) != want || len(ended) != want {
		return fmt.Errorf("the history has %d turns and %d ends, want %d", len(requested), len(ended), want)
	}
	return nil
}

// heavy is the work on the large session.
type heavy struct {
	g               *rig
	log             events.Log
	enough          chan struct{} // closed after enough time, when each step was done
	reads, archives atomic.Int64

	cancel context.CancelFunc
	wait   sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (h *heavy) start(ctx context.Context, least time.Duration) {
	ctx, h.cancel = context.WithCancel(ctx)
	began := time.Now()
	var once sync.Once
	repeat := func(done *atomic.Int64, do func(int64) error) {
		h.wait.Go(func() {
			for ctx.Err() == nil {
				if err := do(done.Load()); err != nil {
					h.failed(ctx, err)
					once.Do(func() { close(h.enough) })
					return
				}
				done.Add(1)
				if time.Since(began) >= least && h.reads.Load() > 0 && h.archives.Load() > 0 {
					once.Do(func() { close(h.enough) })
				}
			}
		})
	}
	repeat(&h.reads, func(int64) error { return h.read(ctx) })
	archiver := follow.NewArchiver(h.g.inner, follow.ArchiverConfig{})
	repeat(&h.archives, func(n int64) error { return h.fork(ctx, archiver, sessionID("fork", int(n))) })
}

func (h *heavy) failed(ctx context.Context, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() == nil {
		h.err = errors.Join(h.err, err)
	}
}

func (h *heavy) stop() error {
	h.cancel()
	h.wait.Wait()
	return h.err
}

func (h *heavy) read(ctx context.Context) error {
	for _, err := range h.log.Read(ctx, "large", 1) {
		if err != nil {
			return err
		}
	}
	return nil
}

// fork copies the large session, archives the copy and erases it.
func (h *heavy) fork(ctx context.Context, archiver *follow.Archiver, id events.SessionID) error {
	host := h.g.node.Host()
	if _, err := host.Fork(ctx, "large", api.CreateRequest{ID: id}); err != nil {
		return err
	}
	cold, err := archiver.Archive(ctx, id)
	if err == nil && !cold {
		err = fmt.Errorf("session %s is not archived", id)
	}
	if err != nil {
		return err
	}
	_, err = host.Erase(ctx, id, "measured")
	return err
}
