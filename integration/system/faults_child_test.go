package system

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/turn"
)

// pair is the workload of one session on nodes that are processes.
type pair struct {
	*harness.Fleet
	journal string
	url     string
	rounds  int
	driven  chan error
}

func setupPair(t *testing.T) *pair {
	t.Helper()
	b := &harness.System{T: t, Ctx: harness.Context(t), Server: bustest.Server(t, busembed.Config{Listen: true})}
	b.Bus = bustest.Open(t, b.Server)
	b.Host = b.NewHost(b.Bus)
	return &pair{Fleet: &harness.Fleet{System: b}, journal: filepath.Join(t.TempDir(), "journal"), url: b.Server.URL(), driven: make(chan error, 1)}
}

// start starts a node that blocks in an effect of the first session, or in none where that is empty.
func (p *pair) start(blockAt events.EffectID) (c *child, id events.WorkerID) {
	p.T.Helper()
	p.rounds++
	cfg := childConfig{URL: p.url, Replicas: 1, Journal: p.journal, Round: p.rounds}
	if blockAt != "" {
		cfg.BlockAt = string(workloadSession(0)) + "/" + string(blockAt)
	}
	c = startChild(p.T, "TestChildNode", cfg, nil)
	return c, events.WorkerID(c.awaitLine(p.Ctx, "serves"))
}

// drive submits turns, from first to the one before last.
func (p *pair) drive(turns int) {
	go func() { p.driven <- drive(p.Ctx, p.Host, 1, turns) }()
}

// claims lists the workers of a turn's attempts.
func (p *pair) claims(id events.TurnID) (list []events.WorkerID) {
	p.T.Helper()
	for _, e := range p.History(workloadSession(0)) {
		if s, ok := e.Payload.(*events.TurnStarted); ok && e.Turn == id {
			list = append(list, s.Worker)
		}
	}
	return list
}

// audited compares the session's turns with the journal, whose lines it returns.
func (p *pair) audited(turns int) (map[string][]string, totals) {
	p.T.Helper()
	lines, err := os.ReadFile(p.journal)
	runtest.WantError(p.T, "journal", err, nil)
	sum := auditAll(p.T, p.Bus, 1, turns, string(lines))
	return linesOf(string(lines)), sum
}

// TestNodeTerminated sends SIGTERM to a node's process in the middle of a call that must not run twice. The node
// waits for the result, records it and releases the job; the queue has not waited for the silence of the node.
func TestNodeTerminated(t *testing.T) {
	t.Parallel()
	p := setupPair(t)
	blocked := turn.ToolEffect(workloadTurn(0), 1, 0)
	runtest.Equal(t, "the tool of the call", calls[1][0], "once")
	node, first := p.start(blocked)
	p.drive(1)
	node.awaitLine(p.Ctx, "holds")
	_, second := p.start("")
	node.signal(syscall.SIGTERM)
	node.awaitLine(p.Ctx, "drains")
	runtest.Equal(t, "turns that have ended", len(harness.Find[*events.TurnCompleted](p.System, workloadSession(0))), 0)
	node.release()
	node.exits(p.Ctx)
	runtest.WantError(t, "turn", harness.Receive(p.System, "turn", p.driven), nil)
	runtest.EqualLists(t, "claims", p.claims(workloadTurn(0)), []events.WorkerID{first, second})
	lines, sum := p.audited(1)
	runtest.Equal(t, "effects asked for again", sum.again, 0)
	runtest.Equal(t, "calls of unknown fate", sum.lost, 0)
	if ran := lines[string(workloadSession(0))+"/"+string(blocked)]; len(ran) != 1 || !strings.HasPrefix(ran[0], "1-") {
		t.Errorf("runs of the call: got %v, want one, in the process that was told to end", ran)
	}
}
