package system

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// clocked is a fleet of processes, each with a clock that can be set.
type clocked struct {
	t       *testing.T
	ctx     context.Context // ends before the test is killed
	program string
	journal string
	servers *processes
	server  [3]*clock
	node    [3]*clockedNode
	rounds  int // nodes ever started
}

// clockedNode is a node and its clock. It counts the effects that it started.
type clockedNode struct {
	*clock
	cmd     *exec.Cmd
	stdin   io.Closer
	started chan struct{}
}

// Write receives the output of the node's process.
func (n *clockedNode) Write(p []byte) (int, error) {
	for range bytes.Count(p, []byte{effectMark}) {
		n.started <- struct{}{}
	}
	return len(p), nil
}

// setupClocked starts three servers and three nodes with the right time.
func setupClocked(t *testing.T) *clocked {
	t.Helper()
	dir := t.TempDir()
	f := &clocked{t: t, program: buildClocked(t), journal: filepath.Join(dir, "journal")}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	f.ctx = ctx
	runtest.WantError(t, "journal", os.WriteFile(f.journal, nil, 0o600), nil)
	var dirs [3]string
	for i := range f.server {
		f.server[i], dirs[i] = newClock(t), filepath.Join(dir, strconv.Itoa(i))
	}
	const host = "127.0.0.1"
	f.servers = clusterOn(t, [3]string{host, host, host}, dirs, func(i int, line []string) []string {
		return append([]string{"env", f.server[i].env(), f.program}, line[1:]...)
	})
	for i := range f.node {
		f.start(i)
	}
	return f
}

// start starts the i-th node, or its replacement, with the right time.
func (f *clocked) start(i int) {
	f.t.Helper()
	n := &clockedNode{clock: newClock(f.t), started: make(chan struct{}, 1<<16)}
	run := runtest.Child(f.t.Context(), "TestChildClocked", n.env(), clockedServers+"="+f.servers.url, clockedJournal+"="+f.journal, clockedRound+"="+strconv.Itoa(f.rounds))
	n.cmd = exec.Command(f.program, run.Args[1:]...) //nolint:gosec // it is this test
	n.cmd.Env = run.Env
	n.cmd.Stdout, n.cmd.Stderr = n, os.Stderr
	stdin, err := n.cmd.StdinPipe()
	runtest.NoError(f.t, err)
	runtest.NoError(f.t, n.cmd.Start())
	n.stdin, f.node[i] = stdin, n
	f.rounds++
	f.t.Cleanup(n.kill)
}

// kill sends SIGKILL.
func (n *clockedNode) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// stop stops the node, which finishes its writes.
func (n *clockedNode) stop() {
	_ = n.stdin.Close()
	_ = n.cmd.Wait()
}

// works waits until a node has started that many more effects.
func (f *clocked) works(i, effects int) {
	f.t.Helper()
	n := f.node[i]
	for len(n.started) > 0 {
		<-n.started
	}
	for got := range effects {
		select {
		case <-n.started:
		case <-f.ctx.Done():
			f.t.Fatalf("node %d: got %d effects, want %d", i, got, effects)
		}
	}
}

// TestClockJumps has the wall clocks of three servers and three nodes jump, and run apart, in the middle of turns.
// A node is killed while its clock is ahead. Timers become due while one node's clock is ahead and another's
// behind, and while those of the servers are ahead: what is due is what the servers' clocks say, and no commit has a node's time.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	f := setupClocked(t)
	b := f.servers.open()
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	for i := range timers {
		_, err := h.Create(f.ctx, api.CreateRequest{ID: timed(i)})
		runtest.WantError(t, "create", err, nil)
	}
	ended, end := f.load(h)

	f.works(0, perTurn)
	f.node[0].set(time.Hour)
	f.node[1].set(-time.Hour)
	f.awaitTimers(h, 0, 0)
	for more := range 3 { // of these at most one is between two turns, where the node has one session
		f.node[0].set(time.Hour)
		f.works(0, perTurn+more)
		f.node[0].kill()
		f.start(0)
	}
	f.node[0].set(-time.Hour)
	for step := range 2 * perTurn { // they run apart
		f.works(2, 1)
		f.node[1].set(-time.Hour + time.Duration(step)*11*time.Minute)
		f.node[2].set(-time.Duration(step) * 7 * time.Second)
	}
	for i := range f.server { // one by one
		f.server[i].set(time.Hour)
		f.works(1, perTurn)
	}
	f.node[1].set(-time.Hour)
	f.node[2].set(0)
	f.awaitTimers(h, 1, time.Hour)
	end()
	turns := harness.Receive(&harness.System{T: t, Ctx: f.ctx}, "end of the load", ended)
	for _, n := range f.node {
		n.stop() // nothing writes to the journal any more
	}
	f.audit(b, turns)
}

// load runs turns of every session until the end.
func (f *clocked) load(h *session.Host) (ended <-chan int, end func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	turns, stop := make(chan int, 1), make(chan struct{})
	var driver sync.WaitGroup
	driver.Go(func() {
		for n := 4; ; n += 4 {
			if err := driveOn(ctx, h, n); err != nil {
				f.t.Error(err)
				return
			}
			select {
			case <-stop:
				turns <- n
				return
			default:
			}
		}
	})
	f.t.Cleanup(func() {
		cancel()
		driver.Wait()
	})
	return turns, sync.OnceFunc(func() { close(stop) })
}

// timed is the i-th session whose turns are started by timers.
func timed(i int) events.SessionID { return workloadSession(lossSessions + i) }

// timers is the number of those sessions.
const timers = 6

// awaitTimers sets timers of the n-th turns, and checks that each turn starts, and not before its time by the servers' clocks, which are
// ahead.
func (f *clocked) awaitTimers(h *session.Host, n int, ahead time.Duration) {
	f.t.Helper()
	at := time.Now().Add(ahead + 3*time.Second)
	for i := range timers {
		_, err := h.SubmitAt(f.ctx, timed(i), at, harness.TurnRequest(workloadTurn(n), "in time"))
		runtest.WantError(f.t, "submit", err, nil)
	}
	for i := range timers {
		r, err := h.Await(f.ctx, timed(i), workloadTurn(n))
		runtest.WantError(f.t, "timer's turn", err, nil)
		runtest.Equal(f.t, "end of the timer's turn", r.End, events.EndFinished)
		if remaining := time.Until(at) - ahead; remaining > 0 {
			f.t.Errorf("timer of %s: it fired %v early", timed(i), remaining)
		}
	}
	f.t.Logf("the timers' turns have ended %v after their time", time.Since(at)+ahead)
}

// audit compares all histories with the journal.
func (f *clocked) audit(b *bus.Bus, turns int) {
	f.t.Helper()
	journal, err := os.ReadFile(f.journal)
	runtest.WantError(f.t, "journal", err, nil)
	lines := linesOf(string(journal))
	var sum totals
	for i := range lossSessions {
		auditSession(f.t, b, workloadSession(i), turns, lines, &sum)
	}
	for i := range timers {
		auditSession(f.t, b, timed(i), 2, lines, &sum)
	}
	least, most := f.apart(b)
	f.t.Logf("%d turns of each session, %+v, times from %v to %v ahead", turns, sum, least, most)
	if sum.takeovers == 0 {
		f.t.Errorf("got %+v, want takeovers", sum)
	}
	if least < -10*time.Minute {
		f.t.Errorf("times are %v to %v ahead, want none of a node whose clock is an hour behind", least, most)
	}
}

// apart returns how far the times of the histories are ahead of now, at least and at most.
func (f *clocked) apart(b *bus.Bus) (least, most time.Duration) {
	f.t.Helper()
	for i := range lossSessions {
		for e, err := range b.Log().Read(f.ctx, workloadSession(i), 1) {
			runtest.WantError(f.t, "read", err, nil)
			ahead := time.Until(e.Commit.At.Time())
			least, most = min(least, ahead), max(most, ahead)
		}
	}
	return least, most
}

// driveOn submits turns as a client does that repeats requests after errors: a repeat is idempotent.
func driveOn(ctx context.Context, h *session.Host, turns int) error {
	for {
		err := drive(ctx, h, lossSessions, turns)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}
