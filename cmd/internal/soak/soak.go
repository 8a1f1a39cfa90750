package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/playback"
)

// Options of a run.
type Options struct {
	Nodes    int           // at least 2
	Plugins  int           // processes of the external plugin that has the tools: 0, or at least 2
	Sessions int           // at once, at least 1
	MCP      int           // sessions at once that call tools of a server of the Model Context Protocol, which each node has; 0: no node has one
	Agents   int           // sessions at once whose turns start agents of agents; with them, turns of one more session kill their nodes. 0: none
	Faults   []Fault       // may be empty
	Duration time.Duration // with faults
	Chats    []string      // files of recorded conversations
	Seed     uint64
	Think    time.Duration // of the scripted model
	Store    string        // a directory of the run
	Keep     bool          // every history as an archive file, not only the failed ones
	Progress io.Writer

	// Program with Args runs [RunChild].
	Program string
	Args    []string
	MCPArgs []string // with which Program runs [RunMCP]
}

// endWait is the longest time without an ended turn, after all faults are undone. After it the remaining turns count
// as lost.
const endWait = 60 * time.Second

// Run runs a fleet under faults for the duration or until ctx ends, and returns a report.
func Run(ctx context.Context, o *Options) (*Report, error) {
	all, err := readChats(o.Chats)
	if err != nil {
		return nil, err
	}
	incidents := &journal{}
	f, err := startFleet(ctx, o, clusterSize, incidents)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	unbounded := context.WithoutCancel(ctx) // the end of ctx only ends the faults
	l, b, err := openLoad(unbounded, o, f, clusterSize, all)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	began := time.Now()
	if err := l.under(ctx, f, b); err != nil {
		return nil, err
	}
	r := &Report{Seed: o.Seed, Turns: l.turns.Load(), ClientsWentOn: l.errorsSurvived.Load(), Stopped: ctx.Err() != nil, ByFault: make(map[Fault]int)}
	r.DurationSeconds = time.Since(began).Seconds()
	for _, i := range incidents.all() {
		r.Faults++
		r.ByFault[i.Fault]++
	}
	return r, l.audit(unbounded, b, r, incidents.all())
}

// openLoad connects a host of the load's clients to a fleet. The caller closes the bus.
func openLoad(ctx context.Context, o *Options, f *fleet, replicas int, all *chats) (*load, *bus.Bus, error) {
	b, err := openBus(ctx, f.ownURL, replicas, zap.NewNop())
	if err != nil {
		return nil, nil, err
	}
	host, err := session.New(session.Config{Bus: b, Actor: "soak", Plugins: session.NoPlugins()})
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return &load{o: o, chats: all, player: playback.NewPlayer(host), host: host}, b, nil
}

// under runs the load while faults happen.
func (l *load) under(ctx context.Context, f *fleet, b *bus.Bus) error {
	faulty, stop := context.WithTimeout(ctx, l.o.Duration)
	defer stop()
	limit, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	faults := &injector{
		f: f, o: l.o, random: rand.New(rand.NewPCG(l.o.Seed, 0)), bus: b, //nolint:gosec // a seed repeats it
		busy: make(map[string]bool), disturbed: make(map[group]int),
	}
	var all sync.WaitGroup
	errs := make([]error, 2)
	all.Go(func() {
		defer cancel()
		var calls sync.WaitGroup
		calls.Go(func() { l.runMCP(faulty, limit) })
		calls.Go(func() { l.runAgents(faulty, limit) })
		errs[0] = l.run(faulty, limit)
		if errs[0] != nil {
			stop()
		}
		calls.Wait()
		stop()
	})
	all.Go(func() {
		if errs[1] = faults.run(faulty); errs[1] != nil {
			stop()
		}
		<-faulty.Done() // without faults the load runs for the same time
		for before := int64(-1); errs[1] == nil && limit.Err() == nil && l.turns.Load() > before; {
			before = l.turns.Load()
			delay.Sleep(limit, endWait)
		}
		cancel()
	})
	all.Go(func() { l.printProgress(limit, f.incident) })
	all.Go(func() { faults.revive(limit) })
	all.Wait()
	return errors.Join(errs...)
}

// progressEvery is the interval of progress lines.
const progressEvery = 3 * time.Second

func (l *load) printProgress(ctx context.Context, incidents *journal) {
	began := time.Now()
	for delay.Sleep(ctx, progressEvery) {
		l.mu.Lock()
		started := len(l.started)
		l.mu.Unlock()
		_, _ = fmt.Fprintf(l.o.Progress, "%4.0f s  %6d turns ended  %5d conversations begun  %4d faults\n",
			time.Since(began).Seconds(), l.turns.Load(), started, len(incidents.all()))
	}
}

// auditors is the number of histories that are checked at once.
const auditors = 8

// audit compares every history with its recording and the ledgers.
func (l *load) audit(ctx context.Context, b *bus.Bus, r *Report, incidents []incident) error {
	_, _ = fmt.Fprintf(l.o.Progress, "reading %d histories\n", len(l.started))
	names, err := filepath.Glob(filepath.Join(l.o.Store, "ledger-*"))
	if err != nil {
		return err
	}
	ledgers := make(map[events.SessionID][]entry)
	for _, name := range names {
		if err := readLedger(name, ledgers); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	found := make([]findings, len(l.started))
	errs := make([]error, len(l.started))
	next := make(chan int)
	for range auditors {
		all.Go(func() {
			for i := range next {
				found[i], errs[i] = auditSession(ctx, b, l.started[i], ledgers[l.started[i].plan.Session])
			}
		})
	}
	for i := range l.started {
		next <- i
	}
	close(next)
	all.Wait()
	var measured []takeover
	for i := range found {
		r.add(l.started[i].plan.Session, &found[i])
		list, n := takeovers(l.started[i].plan.Session, found[i].claims, incidents)
		measured, r.Takeovers = append(measured, list...), r.Takeovers+n
	}
	r.times(measured)
	errs = append(errs, l.auditMCP(ctx, b, r), l.auditAgents(ctx, b, r), saveList(l.o.Store, "incidents.jsonl", incidents), saveList(l.o.Store, "takeovers.jsonl", measured))
	for i := range l.started {
		id := l.started[i].plan.Session
		if bad := r.bad(id); bad != nil || l.o.Keep {
			file, err := saveHistory(ctx, b, l.o.Store, id)
			if errs = append(errs, err); bad != nil {
				bad.History = file
			}
		}
	}
	return errors.Join(errs...)
}
