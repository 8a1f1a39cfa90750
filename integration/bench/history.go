package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// history appends n effects to a session: replies and results alternate, as in a long turn.
func history(ctx context.Context, log events.Log, id events.SessionID, effects int) (payload int, err error) {
	first := opened(id)
	first.Events = append(first.Events,
		events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "bench"}))
	if _, err := log.Append(ctx, first, 0); err != nil {
		return 0, err
	}
	for i := range effects {
		c := replied(id, int64(i/2))
		if i%2 == 1 {
			c = returned(id, int64(i/2))
		}
		if _, err := log.Append(ctx, c, events.Seq(i+1)); err != nil {
			return 0, err
		}
		if i%2 == 1 {
			payload += 1024
		} else {
			payload += 300 + len(`{"id":"4711"}`)
		}
	}
	return payload, nil
}

// replay reads one history: raw with an ordered consumer, and through the log with decode and fold.
func (r *runner) replay(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		n := r.scaled(20000)
		if _, err := history(ctx, b.Log(), "s", n); err != nil {
			return err
		}
		raw, lash, err := alternate(5, func(int) error { return readRaw(ctx, b, n+1) }, func(int) error {
			state := projector.New("s")
			err := follow.Sync(ctx, b.Log(), b, state)
			if err == nil && state.Seq != events.Seq(n+1) {
				err = fmt.Errorf("folded to %d of %d", state.Seq, n+1)
			}
			return err
		})
		if err != nil {
			return err
		}
		r.report.Raw["replay_events_per_s"] = float64(n) / raw.p50() * 1000
		r.report.Lash["replay_events_per_s"] = float64(n) / lash.p50() * 1000
		r.report.ReplayRatio = raw.p50() / lash.p50()
		return nil
	})
}

func readRaw(ctx context.Context, b *bus.Bus, n int) error {
	js, err := jetstream.New(b.Conn())
	if err != nil {
		return err
	}
	consumer, err := js.OrderedConsumer(ctx, "lash-s-s", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(4096))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for range n {
		if _, err := messages.Next(); err != nil {
			return err
		}
	}
	return nil
}

// fold decodes and folds from memory on one core: as a node does, and, in turn, as readers do, without the hashes that
// a head signs.
func (r *runner) fold(ctx context.Context) error {
	const n = 10000
	var raw [][]byte
	log := &events.MemLog{}
	if _, err := history(ctx, log, "s", n); err != nil {
		return err
	}
	for entry, err := range log.Read(ctx, "s", 1) {
		if err != nil {
			return err
		}
		raw = append(raw, entry.Data)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	node, reader, err := alternate(r.scaled(40), func(int) error { return foldAll(projector.New("s"), raw) }, func(int) error { return foldAll(projector.NewUnproven("s"), raw) })
	if err != nil {
		return err
	}
	r.report.FoldPerSecond, r.report.FoldUnproven = n/node.p50()*1000, n/reader.p50()*1000
	r.report.Lash["fold_events_per_s"], r.report.Lash["fold_unproven_events_per_s"] = r.report.FoldPerSecond, r.report.FoldUnproven
	return nil
}

func foldAll(state *projector.State, raw [][]byte) error {
	for i, data := range raw {
		e, err := events.DecodeEntry(events.Seq(i+1), data)
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// growth measures the stored bytes of 20 turns, and of 1 000 and 10 000 effects.
func (r *runner) growth(ctx context.Context) error {
	return r.withRig(ctx, busembed.ProfileInterval, r.growthOn)
}

func (r *runner) growthOn(ctx context.Context, g *rig) error {
	if _, err := g.host.Create(ctx, api.CreateRequest{ID: "twenty"}); err != nil {
		return err
	}
	for range 20 {
		if err := g.turn(ctx, "twenty"); err != nil {
			return err
		}
	}
	state, err := g.host.State(ctx, "twenty")
	if err != nil {
		return err
	}
	stored, err := storedBytes(ctx, g.client, "twenty")
	if err != nil {
		return err
	}
	f := r.report.Lash
	f["session_20_turns_events"], f["session_20_turns_commits"], f["session_20_turns_bytes"] = float64(state.Events), float64(state.Seq), stored
	for _, effects := range []int{1000, 10000} {
		id := sessionID("effects", effects)
		payload, err := history(ctx, g.client.Log(), id, effects)
		if err != nil {
			return err
		}
		if stored, err = storedBytes(ctx, g.client, id); err != nil {
			return err
		}
		name := "stored_" + strconv.Itoa(effects) + "_effects_"
		f[name+"bytes_per_payload_byte"] = stored / float64(payload)
		f[name+"overhead_bytes_per_event"] = (stored - float64(payload)) / float64(effects)
	}
	return nil
}

func storedBytes(ctx context.Context, b *bus.Bus, id events.SessionID) (float64, error) {
	js, err := jetstream.New(b.Conn())
	if err != nil {
		return 0, err
	}
	stream, err := js.Stream(ctx, "lash-s-"+string(id))
	if err != nil {
		return 0, err
	}
	return float64(stream.CachedInfo().State.Bytes), nil
}

// open opens sessions of 10 and of 10 000 events from their snapshots.
func (r *runner) open(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		short, long, err := r.withBoth(ctx, b, 10000, func(id events.SessionID, n int) error {
			state, err := follow.Open(ctx, b, id)
			if err == nil && state.Seq != events.Seq(n+1) {
				err = fmt.Errorf("opened at %d of %d", state.Seq, n+1)
			}
			return err
		})
		if err != nil {
			return err
		}
		r.report.Lash["open_10_p50_ms"], r.report.Lash["open_10k_p50_ms"] = short.p50(), long.p50()
		r.report.Open10kOver10 = long.p50() / short.p50()
		return nil
	})
}

// withBoth does something with a session of 10 events and with one of many, which have snapshots.
func (r *runner) withBoth(ctx context.Context, b *bus.Bus, many int, do func(id events.SessionID, n int) error) (short, long samples, err error) {
	for _, n := range []int{10, many} {
		id := sessionID("events", n)
		if _, err := history(ctx, b.Log(), id, n); err != nil {
			return nil, nil, err
		}
		state, err := follow.Whole(ctx, b, id)
		if err == nil {
			_, err = follow.Save(ctx, b, state)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	of := func(n int) func(int) error { return func(int) error { return do(sessionID("events", n), n) } }
	return alternate(r.scaled(400), of(10), of(many))
}

// hot measures the resident memory that 2 000 sessions with a finished turn add to server, node and client.
func (r *runner) hot(ctx context.Context) error {
	return r.withRig(ctx, busembed.ProfileInterval, r.hotOn)
}

func (r *runner) hotOn(ctx context.Context, g *rig) error {
	n := r.scaled(2000)
	before, err := resident()
	if err != nil {
		return err
	}
	for i := range n {
		id := sessionID("hot", i)
		if _, err := g.host.Create(ctx, api.CreateRequest{ID: id}); err != nil {
			return err
		}
		if err := g.turn(ctx, id); err != nil {
			return err
		}
	}
	written, err := resident()
	if err != nil {
		return err
	}
	time.Sleep(cacheExpiry / time.Duration(max(r.Scale, 1)))
	after, err := resident()
	r.report.HotBytes = (after - before) / float64(n)
	r.report.Lash["hot_session_bytes"] = r.report.HotBytes
	r.report.Lash["hot_session_just_written_bytes"] = (written - before) / float64(n)
	return err
}

// cacheExpiry is the time after which nats-server 2.15 frees the write buffer of a stream, 256 KiB: 10 s after the
// last write, plus a margin.
const cacheExpiry = 14 * time.Second

// resident is the resident memory of the process in bytes, after garbage collection.
func resident() (float64, error) {
	runtime.GC() // empties the first half of the pools; FreeOSMemory the second
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse), nil //nolint:nilerr // on systems without /proc: the heap
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(data))[1], 64)
	return pages * float64(os.Getpagesize()), err
}
