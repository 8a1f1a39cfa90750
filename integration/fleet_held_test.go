package integration

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
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// TestFleetToolConcurrency runs a turn with many calls on a node that runs two at once.
func TestFleetToolConcurrency(t *testing.T) {
	t.Parallel()
	const calls, held = 8, 2
	f, e := setupFleet(t), &errand{effects: events.EffectsNone, begun: make(chan string, calls)}
	var now, most atomic.Int64
	next := make(chan struct{})
	e.hold = func(ctx context.Context) error {
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
		parts = append(parts, call(events.CallID(fmt.Sprintf("c%d", i)), "run", fmt.Sprintf(`{"text":"%d"}`, i)))
	}
	f.calls(parts...)
	f.turnsOnly(e)
	id := f.open(session.CreateRequest{})
	f.submit(id, "t1", text("go"))
	f.unqueued(id) // it waits for its calls, all of which are in the queue
	f.join(workers.Config{Roles: []workers.Role{workers.RoleTool}, Tools: e.on("tools"), ToolConcurrency: held})
	for i := range calls {
		receive(f.bundle, "call", e.begun)
		if i >= held-1 { // as many as may are at it
			next <- struct{}{}
		}
	}
	for range held - 1 {
		next <- struct{}{}
	}
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	equal(t, "calls", len(e.runs), calls)
	equal(t, "at once", most.Load(), held)
}

// TestFleetRoleAPI has a node that does everything but to serve clients: they
// find nobody, and nothing of what they ask for is done.
func TestFleetRoleAPI(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	id := f.open(session.CreateRequest{})
	f.join(workers.Config{Roles: without(workers.RoleAPI)})
	c := f.dialled()
	inject := func() error {
		short, cancel := context.WithTimeout(f.ctx, 300*time.Millisecond)
		defer cancel()
		_, err := c.Inject(short, id, api.InjectRequest{ID: "i1", Parts: says("a")[0].Message.Parts})
		return err
	}
	err := inject()
	for errors.Is(err, events.ErrOutcomeUnknown) && f.ctx.Err() == nil { // the time was up in the middle of an attempt
		err = inject()
	}
	must(t, "inject", err, bus.ErrNobody)
	f.join(workers.Config{Roles: []workers.Role{workers.RoleAPI}})
	_, err = c.Inject(f.ctx, id, api.InjectRequest{ID: "i2", Parts: says("b")[0].Message.Parts})
	must(t, "inject where somebody serves", err, nil)
	inputs := f.state(id).Inputs
	equal(t, "inputs", len(inputs) == 1 && inputs[0].ID == "i2", true)
}

// without is every role but one.
func without(role workers.Role) []workers.Role {
	return slices.DeleteFunc(workers.Roles(), func(r workers.Role) bool { return r == role })
}

// TestFleetRoleArchive has a node that does everything but to archive, and
// looks whether it is time for that, if it does, before a second node that
// does only that: whatever goes cold is the second one's work.
func TestFleetRoleArchive(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	sealed := f.sealers()
	const after = time.Millisecond
	f.joinOn(f.named("n1"), workers.Config{Roles: without(workers.RoleArchive), ArchiveAfter: after})
	ids := []events.SessionID{f.open(session.CreateRequest{}), f.open(session.CreateRequest{})}
	for _, id := range ids {
		f.run(id, "t1", text("go"))
	}
	f.joinOn(f.named("n2"), workers.Config{Roles: []workers.Role{workers.RoleArchive}, ArchiveAfter: after})
	for _, id := range ids {
		f.isCold(id)
	}
	equalLists(t, "who sealed", sealed(), slices.Repeat([]string{"n2"}, len(ids)))
}

// named is a connection whose requests can be told from others'.
func (f *fleet) named(name string) *bus.Bus {
	f.t.Helper()
	on, err := bus.Open(f.ctx, bus.Config{Options: []nats.Option{f.server.InProcess(), nats.CustomInboxPrefix(ownInbox + name)}})
	must(f.t, "open", err, nil)
	f.t.Cleanup(on.Close)
	return on
}

const ownInbox = "_INBOX_"

// sealers tells which named connections asked for a session's stream to be changed, a line for each time.
func (f *fleet) sealers() func() []string {
	f.t.Helper()
	heard, err := bustest.Open(f.t, f.server).Conn().SubscribeSync("$JS.API.STREAM.UPDATE.*")
	must(f.t, "subscribe", err, nil)
	return func() []string {
		var names []string
		for n, _, err := heard.Pending(); n > 0 && err == nil; n, _, err = heard.Pending() {
			m, err := heard.NextMsgWithContext(f.ctx)
			must(f.t, "request", err, nil)
			if name, _, _ := strings.Cut(strings.TrimPrefix(m.Reply, ownInbox), "."); strings.Contains(m.Subject, ".lash-s-") {
				names = append(names, name)
			}
		}
		return names
	}
}
