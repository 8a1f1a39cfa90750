package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/playback"
)

// endWait is the longest time without an ended turn, after all faults are undone. After it the remaining turns count
// as lost.
const endWait = 60 * time.Second

// run runs a fleet under faults for the duration or until ctx ends, and returns a report.
func run(ctx context.Context, o *options) (*Report, error) {
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
func openLoad(ctx context.Context, o *options, f *fleet, replicas int, all *chats) (*load, *bus.Bus, error) {
	b, err := openBus(ctx, f.ownURL, replicas, zap.NewNop())
	if err != nil {
		return nil, nil, err
	}
	host, err := session.New(session.Config{Bus: b, Actor: "soak", Plugins: session.NoPlugins()})
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	l := &load{o: o, chats: all, player: playback.NewPlayer(host), host: host}
	for n := range o.MCP {
		l.mcp = append(l.mcp, &asking{id: events.SessionID(fmt.Sprintf("%s%d", mcpPrefix, n)), text: mcpRun})
	}
	if o.Agents > 0 {
		l.agents = append(l.agents, &asking{id: deadlyWord, text: func(events.SessionID, int) string { return deadlyWord }})
	}
	for n := range o.Agents {
		l.agents = append(l.agents, &asking{id: events.SessionID(fmt.Sprintf("%s-%d", agentsWord, n)), text: func(events.SessionID, int) string { return agentsTask }})
	}
	return l, b, nil
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
		calls.Go(func() { l.ask(faulty, limit, slices.Concat(l.mcp, l.agents)) })
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
		say("%4.0f s  %6d turns ended  %5d conversations begun  %4d faults",
			time.Since(began).Seconds(), l.turns.Load(), started, len(incidents.all()))
	}
}

// auditors is the number of histories that are checked at once.
const auditors = 8

// audit compares every history with its recording and the ledgers.
func (l *load) audit(ctx context.Context, b *bus.Bus, r *Report, incidents []incident) error {
	say("reading %d histories", len(l.started))
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
	for i := range r.Bad {
		r.Bad[i].History, err = saveHistory(ctx, b, l.o.Store, r.Bad[i].Session)
		errs = append(errs, err)
	}
	for i := 0; l.o.Keep && i < len(l.started); i++ {
		_, err = saveHistory(ctx, b, l.o.Store, l.started[i].plan.Session)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
