package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// coldEffects is the number of effects in a session: one finished turn.
const coldEffects = turnEffects

// cold measures a server with hot and cold sessions: its memory, the time to open a cold session and to append to it,
// and the time of restarts.
func (r *runner) cold(ctx context.Context) (err error) {
	store := filepath.Join(r.dir, "store")
	s, err := childServer(ctx, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	cold, hot := r.scaled(r.Cold), r.scaled(r.Hot)
	if err := r.coldOn(ctx, s, cold, hot); err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	f := r.report.Lash
	began := time.Now()
	if s, err = childServer(ctx, store); err != nil {
		return err
	}
	f["cold_server_restart_ms"] = ms(time.Since(began))
	began = time.Now()
	g, err := newRig(ctx, bus.Config{URL: s.url})
	if err != nil {
		return err
	}
	defer g.close()
	if err := g.turn(ctx, sessionID("idle", 0)); err != nil {
		return err
	}
	f["cold_node_restart_to_first_turn_ms"] = ms(time.Since(began))
	restarted, err := s.resident()
	f["cold_server_restarted_mb"] = restarted / 1e6
	return err
}

func (r *runner) coldOn(ctx context.Context, s *child, cold, hot int) error {
	b, err := bus.Open(ctx, bus.Config{URL: s.url, MaxHot: -1})
	if err != nil {
		return err
	}
	defer b.Close()
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
	var size [2]float64
	first, began := cold/5, time.Now()
	took := time.Duration(0)
	for part, n := range []int{first, cold - first} { // the first part shows the memory that the server keeps independent of the number of sessions
		err := r.many(ctx, n, "cold sessions", func(i int) error {
			return goCold(ctx, b, archiver, sessionID("cold", part*first+i))
		})
		if err != nil {
			return err
		}
		took += time.Since(began)
		time.Sleep(cacheExpiry / time.Duration(max(r.Scale, 1)))
		if size[part], err = s.resident(); err != nil {
			return err
		}
		began = time.Now()
	}
	f := r.report.Lash
	f["cold_archived_per_s"] = float64(cold) / took.Seconds()
	f["cold_sessions"], f["cold_session_bytes"] = float64(cold), (size[1]-size[0])/float64(cold-first)
	f["cold_server_mb"] = size[1] / 1e6
	r.report.Cold100kMB = f["cold_session_bytes"] * 100000 / 1e6
	woken, err := r.openCold(ctx, b, cold)
	if err != nil {
		return err
	}
	err = r.many(ctx, max(hot-woken, 1), "hot sessions", func(i int) error {
		return finished(ctx, b.Log(), sessionID("idle", i))
	})
	if err != nil {
		return err
	}
	time.Sleep(cacheExpiry / time.Duration(max(r.Scale, 1)))
	all, err := s.resident()
	f["cold_and_hot_server_mb"], f["cold_beside_hot_sessions"] = all/1e6, float64(hot)
	return err
}

// finished makes a session with an ended turn.
func finished(ctx context.Context, log events.Log, id events.SessionID) error {
	if _, err := history(ctx, log, id, coldEffects); err != nil {
		return err
	}
	_, err := log.Append(ctx, commit(id, events.Of("t1", &events.TurnCompleted{End: events.EndFinished})), coldEffects+1)
	return err
}

func goCold(ctx context.Context, b *bus.Bus, archiver *follow.Archiver, id events.SessionID) error {
	if err := finished(ctx, b.Log(), id); err != nil {
		return err
	}
	done, err := archiver.Archive(ctx, id)
	if err == nil && !done {
		err = fmt.Errorf("session %s stayed hot", id)
	}
	return err
}

// openCold opens some cold sessions, and wakes them with an append. It returns the number of sessions that are hot
// afterwards.
func (r *runner) openCold(ctx context.Context, b *bus.Bus, cold int) (int, error) {
	var opened, woken samples
	n := min(r.scaled(500), cold)
	for i := range n {
		id := sessionID("cold", i*(cold/n))
		at := events.Seq(0)
		err := opened.timed(func() error {
			state, err := follow.Open(ctx, b, id)
			if err == nil {
				at = state.Seq
			}
			return err
		})
		if err == nil {
			err = woken.timed(func() error {
				_, err := b.Log().Append(ctx, replied(id, coldEffects), at)
				return err
			})
		}
		if err != nil {
			return 0, err
		}
	}
	f := r.report.Lash
	f["cold_open_p50_ms"], f["cold_open_p99_ms"] = opened.p50(), opened.p99()
	f["cold_append_p50_ms"], f["cold_append_p99_ms"] = woken.p50(), woken.p99()
	r.report.ColdOpenP50 = opened.p50()
	return n, nil
}

// many does something n times, some at once, and reports progress.
func (r *runner) many(ctx context.Context, n int, what string, do func(i int) error) error {
	const hands = 8
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	next := make(chan int)
	for range hands {
		wait.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		if i > 0 && i%max(n/5, 1000) == 0 {
			progress("%s: %d of %d", what, i, n)
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wait.Wait()
	return context.Cause(ctx)
}
