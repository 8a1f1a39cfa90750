package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// pair is the work of one session, done by nodes that are processes.
type pair struct {
	*fleet
	journal string
	url     string
	rounds  int
	driven  chan error
}

func setupPair(t *testing.T) *pair {
	t.Helper()
	b := &bundle{t: t, ctx: limited(t), server: bustest.Server(t, busembed.Config{Listen: true})}
	b.bus = bustest.Open(t, b.server)
	b.Host = b.newHost(b.bus)
	return &pair{fleet: &fleet{bundle: b}, journal: filepath.Join(t.TempDir(), "journal"), url: b.server.URL(), driven: make(chan error, 1)}
}

// start starts a node that waits in an effect of the first session; in none where that is empty.
func (p *pair) start(hold events.EffectID) (c *child, id events.WorkerID) {
	p.t.Helper()
	p.rounds++
	cfg := childConfig{URL: p.url, Replicas: 1, Journal: p.journal, Round: p.rounds}
	if hold != "" {
		cfg.Hold = string(toilSession(0)) + "/" + string(hold)
	}
	c = startChild(p.t, "TestNodeProcess", cfg, nil)
	return c, events.WorkerID(c.says(p.ctx, "serves"))
}

// drive asks for turns, the first and those before the last.
func (p *pair) drive(turns int) {
	go func() { p.driven <- drive(p.ctx, p.Host, 1, turns) }()
}

// claims are the workers of a turn's attempts.
func (p *pair) claims(id events.TurnID) (list []events.WorkerID) {
	p.t.Helper()
	for _, e := range p.history(toilSession(0)) {
		if s, ok := e.Payload.(*events.TurnStarted); ok && e.Turn == id {
			list = append(list, s.Worker)
		}
	}
	return list
}

// audited holds the session's turns against the journal, whose lines it returns.
func (p *pair) audited(turns int) (map[string][]string, totals) {
	p.t.Helper()
	lines, err := os.ReadFile(p.journal)
	must(p.t, "journal", err, nil)
	sum := auditAll(p.t, p.bus, 1, turns, string(lines))
	return linesOf(string(lines)), sum
}

// TestNodeFrozen stops a node's process in the middle of a model call until
// another one has ended the turn. Its reply, which comes then, counts for
// nothing, and it runs the next turn.
func TestNodeFrozen(t *testing.T) {
	t.Parallel()
	p := setupPair(t)
	held := turn.ModelEffect(toilTurn(0), 1)
	frozen, first := p.start(held)
	p.drive(1)
	frozen.says(p.ctx, "holds")
	p.await(toilSession(0), "what it came to before", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Iteration == 1 })
	frozen.signal(syscall.SIGSTOP)
	other, second := p.start("")
	must(t, "first turn", receive(p.bundle, "first turn", p.driven), nil)
	last := p.last(toilSession(0))
	frozen.release()
	frozen.signal(syscall.SIGCONT)
	frozen.says(p.ctx, "released")
	equalLists(t, "claims of the first turn", p.claims(toilTurn(0)), []events.WorkerID{first, second})

	other.signal(syscall.SIGTERM)
	other.exits(p.ctx)
	equal(t, "what the woken one wrote", p.last(toilSession(0)), last)
	p.drive(2)
	must(t, "second turn", receive(p.bundle, "second turn", p.driven), nil)
	equalLists(t, "claims of the second turn", p.claims(toilTurn(1)), []events.WorkerID{first})
	frozen.signal(syscall.SIGTERM)
	frozen.exits(p.ctx)
	lines, sum := p.audited(2)
	equal(t, "takeovers", sum.takeovers, 1)
	equal(t, "effects asked for again", sum.again, 1)
	equal(t, "calls of unknown fate", sum.lost, 0)
	asked := lines[string(toilSession(0))+"/"+string(held)]
	if len(asked) != 2 || !strings.HasPrefix(asked[0], "1-") || !strings.HasPrefix(asked[1], "2-") {
		t.Errorf("asked for in the frozen process and then in the other: got %v", asked)
	}
}

// TestNodeTerminated sends SIGTERM to a node's process in the middle of a call
// that must not run twice. It waits for the result, records it and gives the
// job back; the queue has not waited for it to be quiet.
func TestNodeTerminated(t *testing.T) {
	t.Parallel()
	p := setupPair(t)
	held := turn.ToolEffect(toilTurn(0), 1, 0)
	equal(t, "the tool of the call", calls[1][0], "once")
	node, first := p.start(held)
	p.drive(1)
	node.says(p.ctx, "holds")
	_, second := p.start("")
	node.signal(syscall.SIGTERM)
	node.says(p.ctx, "drains")
	equal(t, "turns that have ended", len(find[*events.TurnCompleted](p.bundle, toilSession(0))), 0)
	node.release()
	node.exits(p.ctx)
	must(t, "turn", receive(p.bundle, "turn", p.driven), nil)
	equalLists(t, "claims", p.claims(toilTurn(0)), []events.WorkerID{first, second})
	lines, sum := p.audited(1)
	equal(t, "effects asked for again", sum.again, 0)
	equal(t, "calls of unknown fate", sum.lost, 0)
	if ran := lines[string(toilSession(0))+"/"+string(held)]; len(ran) != 1 || !strings.HasPrefix(ran[0], "1-") {
		t.Errorf("runs of the call: got %v, want one, in the process that was told to end", ran)
	}
}
