package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// replied is a commit with a reply of 300 bytes and a call, like those of a turn.
func replied(session events.SessionID, i int64) *events.Commit {
	return commit(session, events.Of("t1", &events.ModelReplied{
		Iteration: i, Stop: events.StopToolUse, Usage: events.Usage{Input: 1000, Output: 50}, Model: "bench",
		Prompt: events.PromptRef{Digest: strings.Repeat("0123456789abcdef", 4), Leaf: "r-t1-7", Catalog: 1, Config: 1},
		Parts: []events.Part{
			{Kind: events.PartText, Text: strings.Repeat("word ", 60)},
			{Kind: events.PartToolCall, Call: "call_1", Tool: "lookup", Args: []byte(`{"id":"4711"}`)},
		},
	}))
}

func returned(session events.SessionID, i int64) *events.Commit {
	return commit(session, events.Of("t1", &events.ToolReturned{
		Iteration: i, Results: []events.ToolResult{{Text: strings.Repeat("x", 1024)}},
	}))
}

func commit(session events.SessionID, list ...events.Event) *events.Commit {
	return &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: session, At: events.MillisOf(time.Now()),
		Actor: events.Actor{Kind: events.ActorNode, ID: "bench"}, Events: list,
	}
}

func opened(session events.SessionID) *events.Commit {
	return commit(session, events.Of("", &events.SessionOpened{}))
}

// appends compares an append with a publish of the same bytes with an expected sequence. Both alternate, in each
// profile.
func (r *runner) appends(ctx context.Context) error {
	for _, profile := range []busembed.Profile{busembed.ProfileInterval, busembed.ProfileAlways} {
		err := r.withServer(ctx, profile, func(ctx context.Context, b *bus.Bus) error {
			return r.appendPair(ctx, b, string(profile), 1)
		})
		if err != nil {
			return err
		}
	}
	r.report.AppendRatio = r.report.Lash["append_interval_p50_ms"] / r.report.Raw["append_interval_p50_ms"]
	return r.withCluster(func(at bus.Config) error {
		b, err := bus.Open(ctx, at)
		if err != nil {
			return err
		}
		defer b.Close()
		return r.appendPair(ctx, b, string(busembed.ProfileCluster), at.Replicas)
	})
}

func (r *runner) appendPair(ctx context.Context, b *bus.Bus, name string, replicas int) error {
	js, err := rawStream(ctx, b, "raw", replicas)
	if err != nil {
		return err
	}
	log := b.Log()
	if _, err := log.Append(ctx, opened("s"), 0); err != nil {
		return err
	}
	var raw, lash samples
	n := r.scaled(3000)
	for i := range n + n/10 {
		c := replied("s", int64(i))
		data, err := events.Encode(c)
		if err != nil {
			return err
		}
		var a, z samples
		err = a.timed(func() error {
			_, err := js.Publish(ctx, "raw", data, jetstream.WithExpectLastSequence(uint64(i)))
			return err
		})
		if err != nil {
			return err
		}
		err = z.timed(func() error {
			_, err := log.Append(ctx, c, events.Seq(i+1))
			return err
		})
		if err != nil {
			return err
		}
		if i >= n/10 { // the first tenth is the warm-up
			raw, lash = append(raw, a...), append(lash, z...)
		}
	}
	r.report.Raw["append_"+name+"_p50_ms"], r.report.Lash["append_"+name+"_p50_ms"] = raw.p50(), lash.p50()
	return nil
}

// toolStep is a non-idempotent call: append of the call, the call, append of its result, fold.
func (r *runner) toolStep(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		log, js, state, err := r.stepSetup(ctx, b)
		if err != nil {
			return err
		}
		append1 := func(c *events.Commit) error {
			seq, err := log.Append(ctx, c, state.Seq)
			if err != nil {
				return err
			}
			return state.Apply(events.Entry{Seq: seq, Commit: c})
		}
		var raw, lash samples
		for i := range r.scaled(2000) {
			called := replied("s", int64(i))
			called.Events = append(called.Events, events.Of("t1", &events.ToolCalled{Iteration: int64(i), Calls: []int64{0}}))
			data, err := events.Encode(called)
			if err != nil {
				return err
			}
			err = raw.timed(func() error {
				_, err := js.Publish(ctx, "raw", data, jetstream.WithExpectLastSequence(uint64(i)))
				return err
			})
			if err != nil {
				return err
			}
			err = lash.timed(func() error {
				if err := append1(called); err != nil {
					return err
				}
				return append1(returned("s", int64(i)))
			})
			if err != nil {
				return err
			}
		}
		r.report.Raw["step_append_p50_ms"], r.report.Lash["tool_step_p50_ms"] = raw.p50(), lash.p50()
		r.report.ToolStep = lash.p50() / raw.p50()
		return state.Check()
	})
}

func (r *runner) stepSetup(ctx context.Context, b *bus.Bus) (bus.Log, jetstream.JetStream, *projector.State, error) {
	js, err := rawStream(ctx, b, "raw", 1)
	if err != nil {
		return bus.Log{}, nil, nil, err
	}
	log, state := b.Log(), projector.New("s")
	first := opened("s")
	first.Events = append(first.Events,
		events.Of("t1", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "bench"}))
	seq, err := log.Append(ctx, first, 0)
	if err == nil {
		err = state.Apply(events.Entry{Seq: seq, Commit: first})
	}
	return log, js, state, err
}

// maxParallel is the number of sessions that are measured at once.
const maxParallel = 64

// parallel is that number at the run's scale. It is lower above a scale of 100, where creating the sessions would take
// longer than all measurements.
func (r *runner) parallel() int { return max(min(maxParallel, maxParallel*100/max(r.Scale, 1)), 4) }

// sessions64 compares appends to 64 sessions at once with publishes to 64 streams at once.
func (r *runner) sessions64(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		n := r.scaled(600)
		log := b.Log()
		js := make([]jetstream.JetStream, r.parallel())
		for i := range js {
			var err error
			if js[i], err = rawStream(ctx, b, fmt.Sprintf("raw%d", i), 1); err != nil {
				return err
			}
			if _, err := log.Append(ctx, opened(sessionID("s", i)), 0); err != nil {
				return err
			}
		}
		rawRate, err := r.rate(n, func(i, k int) error {
			data, err := events.Encode(replied(sessionID("s", i), int64(k)))
			if err != nil {
				return err
			}
			_, err = js[i].Publish(ctx, fmt.Sprintf("raw%d", i), data, jetstream.WithExpectLastSequence(uint64(k)))
			return err
		})
		if err != nil {
			return err
		}
		lashRate, err := r.rate(n, func(i, k int) error {
			_, err := log.Append(ctx, replied(sessionID("s", i), int64(k)), events.Seq(k+1))
			return err
		})
		r.report.Raw["events_64_per_s"], r.report.Lash["events_64_per_s"] = rawRate, lashRate
		r.report.Events64Ratio = lashRate / rawRate
		return err
	})
}

func sessionID(prefix string, i int) events.SessionID {
	return events.SessionID(fmt.Sprintf("%s%d", prefix, i))
}

// rate does n things, in order, in each of [runner.parallel] goroutines, and returns the rate per second.
func (r *runner) rate(n int, do func(i, k int) error) (float64, error) {
	parallel := r.parallel()
	errs := make([]error, parallel)
	var all sync.WaitGroup
	began := time.Now()
	for i := range parallel {
		all.Go(func() {
			for k := range n {
				if errs[i] = do(i, k); errs[i] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began).Seconds()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return float64(parallel*n) / took, nil
}
