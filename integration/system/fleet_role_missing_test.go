package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestFleetCallSlots has a node with capacity for two calls and a turn with many: they run two at a time.
func TestFleetCallSlots(t *testing.T) {
	t.Parallel()
	const calls, blocked = 8, 2
	f, e := harness.StartFleet(t), &fleetWorkload{effects: events.EffectsNone, started: make(chan string, calls)}
	var now, most atomic.Int64
	next := make(chan struct{})
	e.block = func(ctx context.Context) error {
		for n, seen := now.Add(1), most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		defer now.Add(-1)
		select {
		case <-next:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var parts []events.Part
	for i := range calls {
		parts = append(parts, harness.Call(events.CallID(fmt.Sprintf("c%d", i)), "run", fmt.Sprintf(`{"text":"%d"}`, i)))
	}
	callFirst(f, parts...)
	turnsOnly(f, e)
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	f.AwaitUnqueued(id) // it waits for its calls, all of which are in the queue
	f.Join(workers.Config{Roles: []workers.Role{workers.RoleTool}, Tools: e.on("tools"), ToolConcurrency: blocked})
	for i := range calls {
		harness.Receive(f.System, "call", e.started)
		if i >= blocked-1 { // as many as may are at it
			next <- struct{}{}
		}
	}
	for range blocked - 1 {
		next <- struct{}{}
	}
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "calls", len(e.runs), calls)
	runtest.Equal(t, "at once", most.Load(), blocked)
}

// TestFleetRoleAPI has a node with every role except the API: requests of clients find no responder, and have no
// effect.
func TestFleetRoleAPI(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	f.Join(workers.Config{Roles: without(workers.RoleAPI)})
	c := f.Dial()
	inject := func() error {
		short, cancel := context.WithTimeout(f.Ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Inject(short, id, api.InjectRequest{ID: "i1", Parts: harness.UserMessages("a")[0].Message.Parts})
		return err
	}
	err := inject()
	for errors.Is(err, events.ErrOutcomeUnknown) && f.Ctx.Err() == nil { // the time was up in the middle of an attempt
		err = inject()
	}
	runtest.WantError(t, "inject", err, bus.ErrNoResponder)
	f.Join(workers.Config{Roles: []workers.Role{workers.RoleAPI}})
	_, err = c.Inject(f.Ctx, id, api.InjectRequest{ID: "i2", Parts: harness.UserMessages("b")[0].Message.Parts})
	runtest.WantError(t, "inject where somebody serves", err, nil)
	inputs := f.StateOf(id).Inputs
	runtest.Equal(t, "inputs", len(inputs) == 1 && inputs[0].ID == "i2", true)
}

// without lists every role but one.
func without(role workers.Role) []workers.Role {
	return slices.DeleteFunc(workers.Roles(), func(r workers.Role) bool { return r == role })
}

// TestFleetRoleArchive has a node with every role except archive, then a second node with that role only. The
// second node alone seals the streams of both sessions.
func TestFleetRoleArchive(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	sealed := sealers(f)
	const after = time.Millisecond
	f.JoinOn(fleetNamed(f, "n1"), workers.Config{Roles: without(workers.RoleArchive), ArchiveAfter: after})
	ids := []events.SessionID{f.Open(api.CreateRequest{}), f.Open(api.CreateRequest{})}
	for _, id := range ids {
		f.RunTurn(id, "t1", harness.Text("go"))
	}
	f.JoinOn(fleetNamed(f, "n2"), workers.Config{Roles: []workers.Role{workers.RoleArchive}, ArchiveAfter: after})
	for _, id := range ids {
		f.AwaitCold(id)
	}
	runtest.EqualLists(t, "who sealed", sealed(), slices.Repeat([]string{"n2"}, len(ids)))
}

// named is a connection with a name that distinguishes its requests.
func fleetNamed(f *harness.Fleet, name string) *bus.Bus {
	f.T.Helper()
	on, err := bus.Open(f.Ctx, bus.Config{Options: []nats.Option{f.Server.InProcess(), nats.CustomInboxPrefix(ownInbox + name)}})
	runtest.WantError(f.T, "open", err, nil)
	f.T.Cleanup(on.Close)
	return on
}

const ownInbox = "_INBOX_"

// sealers lists the named connections that requested a change of a session's stream, a line for each request.
func sealers(f *harness.Fleet) func() []string {
	f.T.Helper()
	subscription, err := bustest.Open(f.T, f.Server).Conn().SubscribeSync("$JS.API.STREAM.UPDATE.*")
	runtest.WantError(f.T, "subscribe", err, nil)
	return func() []string {
		var names []string
		for n, _, err := subscription.Pending(); n > 0 && err == nil; n, _, err = subscription.Pending() {
			m, err := subscription.NextMsgWithContext(f.Ctx)
			runtest.WantError(f.T, "request", err, nil)
			if name, _, _ := strings.Cut(strings.TrimPrefix(m.Reply, ownInbox), "."); strings.Contains(m.Subject, ".lash-s-") {
				names = append(names, name)
			}
		}
		return names
	}
}
