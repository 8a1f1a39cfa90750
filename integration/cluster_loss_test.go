package integration

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/session"
)

// The work that goes on while servers fall.
const (
	lossSessions = 6
	lossTurns    = 12
)

// underLoss runs turns on a cluster while something happens to it, and audits every effect.
func underLoss(t *testing.T, p *processes, happens func(ctx context.Context, l *loss)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var journal bytes.Buffer
	l := &loss{t: t, p: p, b: p.open(), heard: make(chan int, 1<<16), stops: make(map[int]func())}
	l.toil = &toil{journal: &journal, heard: func(lines int) { l.heard <- lines }}
	for i := range 2 {
		l.startNode(i)
	}
	h, err := session.New(session.Config{Bus: p.open()})
	if err != nil {
		t.Fatal(err)
	}
	driven := make(chan error, 1)
	var driver sync.WaitGroup
	driver.Go(func() { driven <- driveOn(ctx, h, lossTurns) })
	happens(ctx, l)
	if err := <-driven; err != nil {
		t.Error(err)
	}
	driver.Wait()
	for _, stop := range l.stops {
		stop() // nothing writes to the journal any more
	}
	p.whole(ctx, l.b)
	auditAll(t, l.b, lossSessions, lossTurns, journal.String())
}

// driveOn drives as a client does that goes on after errors: asking again is harmless.
func driveOn(ctx context.Context, h *session.Host, turns int) error {
	for {
		err := drive(ctx, h, lossSessions, turns)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

type loss struct {
	t     *testing.T
	p     *processes
	b     *bus.Bus
	toil  *toil
	heard chan int
	stops map[int]func()
}

// startNode starts the i-th node on a connection of its own.
func (l *loss) startNode(i int) {
	l.t.Helper()
	node, err := l.toil.node(l.p.open())
	if err != nil {
		l.t.Fatal(err)
	}
	if err := node.Start(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	var once sync.Once
	l.stops[i] = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			node.Stop(now)
		})
	}
	l.t.Cleanup(l.stops[i])
}

// after waits until so many effects were begun in all.
func (l *loss) after(ctx context.Context, effects int) {
	l.t.Helper()
	for n := 0; n < effects; {
		select {
		case n = <-l.heard:
		case <-ctx.Done():
			l.t.Fatalf("got %d effects, want %d", n, effects)
		}
	}
}

// perTurn is how many effects a turn has at least.
const perTurn = 10

// TestLeaderLost kills the server that leads a session's stream, again and again, in the middle of turns.
func TestLeaderLost(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	p := loopback(t)
	underLoss(t, p, func(ctx context.Context, l *loss) {
		for n := 1; n <= 2; n++ {
			l.after(ctx, n*lossSessions*lossTurns*perTurn/4)
			i := p.leader(ctx, l.b, toilSession(0))
			p.kill(i)
			l.after(ctx, n*lossSessions*lossTurns*perTurn/4+perTurn) // it goes on without
			p.start(i)
			p.whole(ctx, l.b)
		}
	})
}

// TestRollingRestart replaces every server and every node, one after the other, in the middle of turns.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("elections take seconds")
	}
	p := loopback(t)
	underLoss(t, p, func(ctx context.Context, l *loss) {
		l.after(ctx, lossSessions*perTurn)
		for i := range p.cfg {
			p.kill(i)
			p.start(i)
			p.whole(ctx, l.b)
		}
		for i := range 2 {
			l.stops[i]()
			l.startNode(i)
		}
	})
}
