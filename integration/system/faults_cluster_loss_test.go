package system

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
)

// The work that goes on while servers fall.
const (
	lossSessions = 6
	lossTurns    = 12 // of each session, submitted together
)

// underLoss runs turns on a cluster, with that many nodes, during a fault and some time longer, and audits every
// effect.
func underLoss(t *testing.T, p *processes, nodes int, happens func(ctx context.Context, l *loss)) totals {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	l := &loss{t: t, p: p, journal: filepath.Join(t.TempDir(), "journal"), received: make(chan int, 1<<16), stops: make(map[int]func(context.Context)), enough: make(chan struct{})}
	journal, err := os.OpenFile(l.journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	runtest.NoError(t, err)
	defer journal.Close() //nolint:errcheck // it was only appended to
	l.b = p.open()
	l.host = l.newHost(l.b)
	l.workload = &faultsWorkload{journal: journal, onLines: func(lines int) { l.received <- lines }}
	for i := range nodes {
		l.startNode(i)
	}
	l.startClient(ctx)
	happens(ctx, l)
	l.further(ctx, lossSessions)
	close(l.enough)
	runtest.WantError(t, "driven", <-l.driven, nil)
	for _, stop := range l.stops {
		stop(ctx) // nothing writes to the journal any more
	}
	p.awaitReplicas(ctx, l.b)
	lines, err := os.ReadFile(l.journal)
	runtest.NoError(t, err)
	return auditAll(t, l.b, lossSessions, l.turns, string(lines))
}

// loss is a cluster whose servers and nodes fail.
type loss struct {
	t        *testing.T
	p        *processes
	b        *bus.Bus
	host     *session.Host // looks only
	workload *faultsWorkload
	journal  string // the file
	received chan int
	stops    map[int]func(ctx context.Context) // softly until ctx ends
	ids      [2]events.WorkerID                // of the nodes

	turns    int           // of each session whose ends the client has received
	enough   chan struct{} // closed: the client asks for no more
	driven   chan error    // the client's end
	stopNode func()        // ends the client in the middle of its wait
}

func (l *loss) newHost(b *bus.Bus) *session.Host {
	l.t.Helper()
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(l.t, err)
	return h
}

// startClient starts the host client, on a connection of its own. It submits turns until there are enough, and
// repeats requests after errors: a repeat is idempotent.
func (l *loss) startClient(ctx context.Context) {
	l.t.Helper()
	b := l.p.open()
	h := l.newHost(b)
	ctx, cancel := context.WithCancel(ctx)
	l.driven = make(chan error, 1)
	go func() { // ends with ctx, or with driven
		for {
			err := driveFrom(ctx, h, lossSessions, l.turns, l.turns+lossTurns)
			if ctx.Err() != nil {
				l.driven <- err
				return
			}
			if err != nil {
				continue
			}
			l.turns += lossTurns
			select {
			case <-l.enough:
				l.driven <- nil
				return
			default:
			}
		}
	}()
	l.stopNode = func() {
		cancel()
		b.Close()
	}
	l.t.Cleanup(l.stopNode)
}

// restartClient ends the client as a killed process ends, and starts another that repeats its requests.
func (l *loss) restartClient(ctx context.Context) {
	l.t.Helper()
	l.stopNode()
	l.t.Logf("the client that ended: %v", <-l.driven)
	l.startClient(ctx)
}

// startNode starts the i-th node on a connection of its own.
func (l *loss) startNode(i int) {
	l.t.Helper()
	node, err := l.workload.node(l.p.open())
	runtest.NoError(l.t, err)
	runtest.NoError(l.t, node.Start(l.t.Context()))
	l.ids[i] = node.ID()
	var once sync.Once
	l.stops[i] = func(ctx context.Context) { once.Do(func() { node.Stop(ctx) }) }
	l.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		l.stops[i](now)
	})
}

// drain stops the i-th node as SIGTERM does, while it runs a turn.
func (l *loss) drain(ctx context.Context, i int) {
	l.t.Helper()
	l.turnOf(ctx, l.ids[i])
	grace, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l.stops[i](grace)
	if grace.Err() != nil {
		l.t.Errorf("node %d: it took all of its grace", i)
	}
}

// state is the state of a session; nil before it is created. It repeats the read until the servers respond.
func (l *loss) state(ctx context.Context, id events.SessionID) *projector.State {
	l.t.Helper()
	for ctx.Err() == nil {
		once, cancel := context.WithTimeout(ctx, 5*time.Second)
		s, err := l.host.State(once, id)
		cancel()
		if err == nil || errors.Is(err, events.ErrNoSession) {
			return s
		}

	}
	l.t.Fatalf("state of %s: %v", id, context.Cause(ctx))
	return nil
}

// turnOf waits until a node runs a turn, and returns its session.
func (l *loss) turnOf(ctx context.Context, worker events.WorkerID) (id events.SessionID, t *projector.Turn) {
	l.t.Helper()
	l.until(ctx, "turn of "+string(worker), func() bool {
		for i := range lossSessions {
			id = workloadSession(i)
			if s := l.state(ctx, id); s != nil && s.Turn() != nil && s.Turn().Worker == worker {
				t = s.Turn()
				return true
			}
		}
		return false
	})
	return id, t
}

// further waits until that many more turns have ended.
func (l *loss) further(ctx context.Context, turns int) {
	l.t.Helper()
	want := l.ended(ctx) + int64(turns)
	l.until(ctx, "further turns", func() bool { return l.ended(ctx) >= want })
}

// ended is the number of turns that have ended in all.
func (l *loss) ended(ctx context.Context) (n int64) {
	l.t.Helper()
	for i := range lossSessions {
		if s := l.state(ctx, workloadSession(i)); s != nil {
			n += s.Turns
			if s.Turn() != nil {
				n--
			}
		}
	}
	return n
}

// until calls ok again and again.
func (l *loss) until(ctx context.Context, what string, ok func() bool) {
	l.t.Helper()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			l.t.Fatalf("until %s: %v", what, context.Cause(ctx))
		case <-ticks.C:
		}
	}
}

// after waits until that many effects have started in all.
func (l *loss) after(ctx context.Context, effects int) {
	l.t.Helper()
	for n := 0; n < effects; {
		select {
		case n = <-l.received:
		case <-ctx.Done():
			l.t.Fatalf("got %d effects, want %d", n, effects)
		}
	}
}

// perTurn is the least number of effects of a turn.
const perTurn = 10

// TestLongLeaderLost kills the server that leads a session's stream, again and again, in the middle of turns.
func TestLongLeaderLost(t *testing.T) { // alone: elections of starved servers take minutes
	p := loopback(t)
	underLoss(t, p, 2, func(ctx context.Context, l *loss) {
		for n := 1; n <= 2; n++ {
			l.after(ctx, n*lossSessions*lossTurns*perTurn/4)
			i := p.leader(ctx, l.b, workloadSession(0))
			p.kill(i)
			l.after(ctx, n*lossSessions*lossTurns*perTurn/4+perTurn) // it goes on without
			p.start(i)
			p.awaitReplicas(ctx, l.b)
		}
	})
}

// TestLongRollingRestart replaces every server, every node and the host client, one after the other, as an operator
// does, during turns.
func TestLongRollingRestart(t *testing.T) { // alone: elections of starved servers take minutes
	p := loopback(t)
	sum := underLoss(t, p, 2, func(ctx context.Context, l *loss) {
		for i := range p.cfg {
			l.further(ctx, lossSessions)
			p.stop(i)
			l.further(ctx, lossSessions) // it goes on without
			p.start(i)
			p.awaitReplicas(ctx, l.b)
		}
		for i := range l.ids {
			l.further(ctx, lossSessions)
			l.drain(ctx, i)
			l.further(ctx, lossSessions)
			l.startNode(i)
			l.turnOf(ctx, l.ids[i])
		}
		l.further(ctx, lossSessions)
		l.restartClient(ctx)
	})
	if sum.takeovers == 0 {
		t.Errorf("got %+v, want turns that were handed over", sum)
	}
}
