package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
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
	publish, err := rawStreams(ctx, b, 1, replicas)
	if err != nil {
		return err
	}
	log := b.Log()
	if _, err := log.Append(ctx, opened("s"), 0); err != nil {
		return err
	}
	n := r.scaled(3000)
	warm := n / 10
	commits, data, err := encoded(n+warm, func(i int64) *events.Commit { return replied("s", i) })
	if err != nil {
		return err
	}
	raw, lash, err := alternate(n+warm, func(i int) error { return publish(0, i, data[i]) }, func(i int) error {
		_, err := log.Append(ctx, commits[i], events.Seq(i+1))
		return err
	})
	if err != nil {
		return err
	}
	raw, lash = raw[warm:], lash[warm:]
	r.report.Raw["append_"+name+"_p50_ms"], r.report.Lash["append_"+name+"_p50_ms"] = raw.p50(), lash.p50()
	return nil
}

// encoded are n commits, and their bytes.
func encoded(n int, of func(i int64) *events.Commit) (commits []*events.Commit, data [][]byte, err error) {
	for i := 0; i < n && err == nil; i++ {
		var bytes []byte
		commits = append(commits, of(int64(i)))
		bytes, err = events.Encode(commits[i])
		data = append(data, bytes)
	}
	return commits, data, err
}

// toolStep is a non-idempotent call: append of the call, the call, append of its result, fold.
func (r *runner) toolStep(ctx context.Context) error {
	return r.withServer(ctx, busembed.ProfileInterval, func(ctx context.Context, b *bus.Bus) error {
		publish, err := rawStreams(ctx, b, 1, 1)
		if err != nil {
			return err
		}
		log, state := b.Log(), projector.New("s")
		if _, err = history(ctx, log, "s", 0); err == nil {
			err = follow.Sync(ctx, log, b, state)
		}
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
		n := r.scaled(2000)
		called, data, err := encoded(n, func(i int64) *events.Commit {
			c := replied("s", i)
			c.Events = append(c.Events, events.Of("t1", &events.ToolCalled{Iteration: i, Calls: []int64{0}}))
			return c
		})
		if err != nil {
			return err
		}
		raw, lash, err := alternate(n, func(i int) error { return publish(0, i, data[i]) }, func(i int) error {
			if err := append1(called[i]); err != nil {
				return err
			}
			return append1(returned("s", int64(i)))
		})
		if err != nil {
			return err
		}
		r.report.Raw["step_append_p50_ms"], r.report.Lash["tool_step_p50_ms"] = raw.p50(), lash.p50()
		r.report.ToolStep = lash.p50() / raw.p50()
		return state.Check()
	})
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
		publish, err := rawStreams(ctx, b, r.parallel(), 1)
		if err != nil {
			return err
		}
		for i := range r.parallel() {
			if _, err := log.Append(ctx, opened(sessionID("s", i)), 0); err != nil {
				return err
			}
		}
		rawRate, err := r.rate(n, func(i, k int) error {
			data, err := events.Encode(replied(sessionID("s", i), int64(k)))
			if err == nil {
				err = publish(i, k, data)
			}
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
