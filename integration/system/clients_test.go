package system

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// typist is a client on a connection of its own that submits to a session and watches it.
type typist struct {
	name   string
	client *client.Client
	wire   *flaky
	lines  []string // commits in the order that it saw them
}

func newTypist(t *testing.T, server *busembed.Server, n int) *typist {
	t.Helper()
	y := &typist{name: fmt.Sprintf("typist%d", n), wire: newFlaky(t, server.URL(), uint64(n))}
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	on := harness.OpenReader(t, bus.Config{URL: y.wire.url(), Timeout: 250 * time.Millisecond, Options: []nats.Option{silent, nats.IgnoreDiscoveredServers(), nats.Timeout(30 * time.Second)}})
	var err error
	if y.client, err = client.New(client.Config{Bus: on, Actor: y.name, Silence: 250 * time.Millisecond, Logger: zaptest.NewLogger(t)}); err != nil {
		t.Fatal(err)
	}
	return y
}

// typed is the number of turns, and of inputs, of each typist.
const typed = 6

// types submits turns and injects inputs, without a wait for any turn.
func (y *typist) types(ctx context.Context, id events.SessionID) error {
	for i := range typed {
		turn := events.TurnID(fmt.Sprintf("%s-t%d", y.name, i))
		if _, err := y.client.Submit(ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: harness.UserMessages(string(turn))[0].Message.Parts}}); err != nil {
			return fmt.Errorf("%s: %w", turn, err)
		}
		input := events.InputID(fmt.Sprintf("%s-i%d", y.name, i))
		if _, err := y.client.Inject(ctx, id, api.InjectRequest{ID: input, Parts: harness.UserMessages(string(input))[0].Message.Parts}); err != nil {
			return fmt.Errorf("%s: %w", input, err)
		}
		err := y.client.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.MaxOutputTokens++; return c }})
		if err != nil {
			return fmt.Errorf("%s: configure %d: %w", y.name, i, err)
		}
	}
	return nil
}

// watches collects the commits up to the one that closes the session.
func (y *typist) watches(ctx context.Context, id events.SessionID) error {
	for seen, err := range y.client.Observe(ctx, id, 0) {
		if err != nil {
			return fmt.Errorf("%s: %w", y.name, err)
		}
		if seen.Commit == nil {
			continue
		}
		y.lines = append(y.lines, fmt.Sprintf("%d %s", seen.Seq, seen.Commit.ID))
		for _, e := range seen.Commit.Events {
			if e.Kind == events.KindSessionClosed {
				return nil
			}
		}
	}
	return nil
}

// TestSmokeThreeClients has three clients submit to one session at once, each over a connection that is cut every few
// KB, to one node and to two. They read one history, in the same order, with nothing lost or doubled; so does a
// client that connects at the end.
func TestSmokeThreeClients(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string]int{"one_node": 1, "two_nodes": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			threeClients(t, nodes)
		})
	}
}

func threeClients(t *testing.T, nodes int) {
	t.Helper()
	ctx := harness.Context(t)
	server := bustest.Server(t, busembed.Config{Listen: true})
	on := bustest.Open(t, server)
	n, _ := serving(t, on)
	for range nodes - 1 {
		serving(t, bustest.Open(t, server))
	}
	id, err := n.Host().Create(ctx, api.CreateRequest{})
	runtest.NoError(t, err)
	var list []*typist
	for i := range 3 {
		list = append(list, newTypist(t, server, i))
	}
	var typing, watching sync.WaitGroup
	failures := make(chan error, 6)
	for _, y := range list {
		watching.Go(func() { failures <- y.watches(ctx, id) })
		typing.Go(func() { failures <- y.types(ctx, id) })
	}
	typing.Wait()
	for _, y := range list {
		for i := range typed {
			turn := events.TurnID(fmt.Sprintf("%s-t%d", y.name, i))
			if _, err := list[0].client.Await(ctx, id, turn); err != nil {
				t.Fatalf("await %s: %v", turn, err)
			}
		}
	}
	// Inputs that arrived after the last turn's last checkpoint wait for one more turn.
	_, err = n.Host().Run(ctx, id, api.TurnRequest{ID: "last", Input: events.TurnInput{Parts: harness.UserMessages("last")[0].Message.Parts}})
	runtest.NoError(t, err)
	runtest.NoError(t, n.Host().CloseSession(ctx, id, "the test is over"))
	watching.Wait()
	for range cap(failures) {
		runtest.NoError(t, <-failures)
	}
	late := newTypist(t, server, len(list))
	runtest.NoError(t, late.watches(ctx, id))
	checkTyped(t, on, id, list, late)
}

// checkTyped compares what the typists read and submitted, and what a late client read, with the log.
func checkTyped(t *testing.T, on *bus.Bus, id events.SessionID, list []*typist, late *typist) {
	t.Helper()
	var log []string
	times := make(map[string]int)
	state := projector.New(id)
	for e, err := range on.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		runtest.NoError(t, state.Apply(e))
		log = append(log, fmt.Sprintf("%d %s", e.Seq, e.Commit.ID))
		for _, ev := range e.Commit.Events {
			switch p := ev.Payload.(type) {
			case *events.TurnRequested, *events.TurnCompleted:
				times[string(ev.Kind)+" "+string(ev.Turn)]++
			case *events.InputInjected:
				times["input "+string(p.Input)]++
			case *events.InputAccepted:
				for _, input := range p.Inputs {
					times["taken "+string(input)]++
				}
			case *events.SessionConfigured:
				times["configured"]++
			}
		}
	}
	for _, y := range append(slices.Clone(list), late) {
		runtest.EqualLists(t, fmt.Sprintf("%s saw %d commits, want the %d of the log in its order", y.name, len(y.lines), len(log)), y.lines, log)
	}
	nodes, err := state.AllNodes()
	runtest.NoError(t, err)
	for _, n := range nodes {
		if n.Message.Role == events.RoleUser {
			times["said "+n.Message.Text()]++
		}
	}
	cuts := int64(0)
	for _, y := range list {
		cuts += y.wire.cuts.Load()
		for i := range typed {
			runtest.Equal(t, "requests", times[fmt.Sprintf("turn.requested %s-t%d", y.name, i)], 1)
			runtest.Equal(t, "ends", times[fmt.Sprintf("turn.completed %s-t%d", y.name, i)], 1)
			runtest.Equal(t, "inputs", times[fmt.Sprintf("input %s-i%d", y.name, i)], 1)
			runtest.Equal(t, "times that an input was taken", times[fmt.Sprintf("taken %s-i%d", y.name, i)], 1)
			runtest.Equal(t, "messages of an input", times[fmt.Sprintf("said %s-i%d", y.name, i)], 1)
			runtest.Equal(t, "messages of a turn", times[fmt.Sprintf("said %s-t%d", y.name, i)], 1)
		}
	}
	runtest.Equal(t, "changes of the configuration", times["configured"], len(list)*typed)
	runtest.Equal(t, "what they add up to", state.Config.MaxOutputTokens, int64(len(list)*typed))
	if cuts < 10 {
		t.Errorf("cuts of connections: got %d, want many", cuts)
	}
	t.Logf("%d commits, %d cuts", len(log), cuts)
}
