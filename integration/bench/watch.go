package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// The workload: commits at a steady pace, and watchers that share some connections. Each connection is cut once. Each
// watcher also leaves once, and returns later with its cursor.
const (
	watchers       = 1000
	watchHosts     = 10
	watchedCommits = 400
	watchPace      = 50 * time.Millisecond
	watchAway      = 5 // commits during a watcher's absence
)

// observed is what the watchers of one session received.
type observed struct {
	last events.Seq

	mu       sync.Mutex
	appended map[events.Seq]time.Time
	ways     samples // from the append, or from the return of the watcher or its connection, to the watcher
}

// wire is a connection that several watchers share.
type wire struct {
	b    *bus.Bus
	host *session.Host
	back atomic.Pointer[time.Time] // time at which it was restored after the cut
}

// cut closes the connection without an error for its watchers.
func (w *wire) cut() error {
	if err := w.b.Conn().ForceReconnect(); err != nil {
		return err
	}
	if err := w.b.Conn().FlushTimeout(5 * time.Second); err != nil {
		return err
	}
	now := time.Now()
	w.back.Store(&now)
	return nil
}

// watchers measures the latency of a commit to each of a thousand watchers. It fails where a watcher misses a commit,
// or receives one twice.
func (r *runner) watchers(ctx context.Context) (err error) {
	s, err := childServer(ctx, filepath.Join(r.dir, "store"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	writer, host, err := newClient(ctx, bus.Config{URL: s.url})
	if err != nil {
		return err
	}
	defer writer.Close()
	if _, err := host.Create(ctx, api.CreateRequest{ID: "watched"}); err != nil {
		return err
	}
	first, err := writer.Log().Last(ctx, "watched")
	if err != nil {
		return err
	}
	commits := r.scaled(watchedCommits)
	a := &observed{last: first + events.Seq(commits), appended: make(map[events.Seq]time.Time)}
	errs := make(chan error, watchers)
	var all, joined sync.WaitGroup
	n := r.scaled(watchers)
	joined.Add(n)
	var wires [watchHosts]wire
	for i := range wires {
		w := &wires[i]
		if w.b, w.host, err = newClient(ctx, bus.Config{URL: s.url}); err != nil {
			return err
		}
		defer w.b.Close()
		for k := i; k < n; k += watchHosts {
			leave := first + 1 + events.Seq(k*max(commits-watchAway, 1)/n) // the watchers leave one after the other
			all.Go(func() {
				join := sync.OnceFunc(joined.Done)
				errs <- a.watch(ctx, w, leave, join)
				join()
			})
		}
	}
	joined.Wait()
	if err := a.perform(ctx, writer, first, wires[:]); err != nil {
		return err
	}
	all.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	r.report.WatchP99 = a.ways.p99()
	r.report.Lash["watch_1000_p50_ms"], r.report.Lash["watch_1000_deliveries"] = a.ways.p50(), float64(len(a.ways))
	return err
}

// perform appends the commits at their pace, and cuts one connection after the other.
func (a *observed) perform(ctx context.Context, b *bus.Bus, first events.Seq, wires []wire) (err error) {
	cuts := make(chan error, len(wires))
	cut, every := 0, max(int(a.last-first)/(len(wires)+1), 1)

	pace := time.NewTicker(watchPace)
	defer pace.Stop()
	for seq := first; seq < a.last; seq++ {
		select {
		case <-pace.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		a.mu.Lock()
		a.appended[seq+1] = time.Now()
		a.mu.Unlock()
		if _, err := b.Log().Append(ctx, replied("watched", int64(seq)), seq); err != nil {
			return err
		}
		if n := int(seq - first); n > 0 && n%every == 0 && n/every <= len(wires) {
			go func() { cuts <- wires[n/every-1].cut() }()
			cut++
		}
	}
	for range cut {
		err = errors.Join(err, <-cuts)
	}
	return err
}

// watch receives the session to its end, with a pause after commit leave.
func (a *observed) watch(ctx context.Context, w *wire, leave events.Seq, joined func()) error {
	cursor, err := a.observe(ctx, w, 0, leave, time.Time{}, joined)
	if err != nil || cursor >= a.last {
		return err
	}
	for back := min(leave+watchAway, a.last); ; {
		a.mu.Lock()
		_, appended := a.appended[back]
		a.mu.Unlock()
		if appended {
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchPace / 4):
		}
	}
	came := time.Now()
	for err = events.ErrOutcomeUnknown; errors.Is(err, events.ErrOutcomeUnknown); { // the watch may start while the connection is cut
		cursor, err = a.observe(ctx, w, cursor, a.last, came, func() {})
	}
	return err
}

// observe watches from a cursor to a commit, and records the latency of each commit.
func (a *observed) observe(ctx context.Context, w *wire, cursor, until events.Seq, came time.Time, joined func()) (events.Seq, error) {
	for o, err := range w.host.Observe(ctx, "watched", cursor) {
		switch {
		case err != nil:
			return cursor, err
		case o.Commit == nil:
			continue
		case o.Seq != cursor+1:
			return cursor, fmt.Errorf("a watcher saw commit %d after %d", o.Seq, cursor)
		}
		cursor = o.Seq
		if back := w.back.Load(); back != nil && back.After(came) {
			came = *back
		}
		if a.record(o.Seq, came); cursor == 1 {
			joined()
		}
		if cursor >= until {
			return cursor, nil
		}
	}
	return cursor, errors.New("a watcher's stream ended")
}

func (a *observed) record(seq events.Seq, came time.Time) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.appended[seq]
	if !ok {
		return // the commit is older than the watch
	}
	if came.After(at) {
		at = came
	}
	a.ways = append(a.ways, now.Sub(at))
}
