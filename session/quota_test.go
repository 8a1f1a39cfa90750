package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

const mostOwned = 3

// owning is a host with the limit, as in a process of its own.
func (b *bundle) owning(most int) *session.Host {
	b.T.Helper()
	h, err := session.New(session.Config{Bus: bustest.Open(b.T, b.Server), MaxSessionsPerCaller: most, Plugins: session.NoPlugins()})
	runtest.NoError(b.T, err)
	return h
}

// by is the context of a caller's request.
func by(ctx context.Context, caller string) context.Context {
	return api.WithRequestMeta(ctx, api.RequestMeta{Actor: caller})
}

func isRefused(err error) bool {
	full, ok := errors.AsType[*api.LimitError](err)
	return ok && full.Limit == mostOwned && full.What == "open sessions of their owner"
}

// project writes the directory's row of a session, as a projector does later.
func project(t rapid.TB, on *bus.Bus, id events.SessionID) {
	t.Helper()
	if err := follow.NewProjector(on, nil).Project(context.Background(), id); err != nil {
		t.Fatal(err)
	}
}

// TestLongOwnedSessions makes, closes, forks and erases sessions of two owners through two hosts and restarted hosts, in
// any order. The directory follows each commit, and exactly the sessions above the limit are refused.
func TestLongOwnedSessions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		hosts := []*session.Host{b.owning(mostOwned), b.owning(mostOwned)}
		open := map[string][]events.SessionID{}
		owner := rapid.Map(rapid.SampledFrom([]string{"alice", "bob"}), func(name string) string { return fmt.Sprintf("%s-%d", name, round) })
		host := func() *session.Host { return rapid.SampledFrom(hosts).Draw(r, "host") }
		made := func(who string, id events.SessionID, err error) {
			switch full := len(open[who]) >= mostOwned; {
			case full && !isRefused(err):
				r.Fatalf("with %d open: got %v, want a refusal", len(open[who]), err)
			case !full && err != nil:
				r.Fatalf("with %d open: got %v, want a session", len(open[who]), err)
			case !full:
				open[who] = append(open[who], id)
				project(r, b.Bus, id)
			}
		}
		some := func() (string, int) {
			who := owner.Draw(r, "owner")
			if len(open[who]) == 0 {
				r.Skip("none is open")
			}
			return who, rapid.IntRange(0, len(open[who])-1).Draw(r, "which")
		}
		gone := func(who string, i int) { open[who] = append(open[who][:i:i], open[who][i+1:]...) }
		r.Repeat(map[string]func(*rapid.T){
			"create": func(*rapid.T) {
				who := owner.Draw(r, "owner")
				id, err := host().Create(by(t.Context(), who), api.CreateRequest{})
				made(who, id, err)
			},
			"fork": func(*rapid.T) {
				who, i := some()
				id, err := host().Fork(by(t.Context(), "nobody"), open[who][i], api.CreateRequest{})
				made(who, id, err)
			},
			"child": func(*rapid.T) {
				who, i := some()
				handle, err := host().CreateFrom(t.Context(), open[who][i], api.CreateRequest{})
				made(who, handle.Session, err)
			},
			"close": func(*rapid.T) {
				who, i := some()
				runtest.NoError(r, host().CloseSession(by(t.Context(), who), open[who][i], "done"))
				project(r, b.Bus, open[who][i])
				gone(who, i)
			},
			"erase": func(*rapid.T) {
				who, i := some()
				_, err := host().Erase(t.Context(), open[who][i], "unwanted")
				runtest.NoError(r, err)
				gone(who, i)
			},
			"restart": func(*rapid.T) { hosts[rapid.IntRange(0, 1).Draw(r, "which")] = b.owning(mostOwned) },
		})
	})
}

// TestOwnedSessionsWithoutDirectory: without a projector the directory is empty. A burst through one host is counted
// exactly. A close through that host releases its session, and a new host counts the open sessions again.
func TestOwnedSessionsWithoutDirectory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	burst := func(h *session.Host, caller string) (made []events.SessionID) {
		t.Helper()
		var mu sync.Mutex
		var wait sync.WaitGroup
		for range 8 * mostOwned {
			wait.Go(func() {
				id, err := h.Create(by(t.Context(), caller), api.CreateRequest{})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made = append(made, id)
				case !isRefused(err):
					t.Errorf("got %v, want a refusal", err)
				}
			})
		}
		wait.Wait()
		return made
	}
	want := func(what string, got []events.SessionID, n int) {
		t.Helper()
		if len(got) != n {
			t.Errorf("%s: got %d sessions, want %d", what, len(got), n)
		}
	}
	h := b.owning(mostOwned)
	first := burst(h, "alice")
	want("at once", first, mostOwned)
	want("another caller", burst(h, "bob"), mostOwned)
	project(t, b.Bus, first[0]) // this row is now behind, and changes no count
	runtest.NoError(t, h.CloseSession(t.Context(), first[0], "done"))
	want("after one was closed", burst(h, "alice"), 1)
	project(t, b.Bus, first[1])
	_, err := h.Erase(t.Context(), first[1], "unwanted")
	runtest.NoError(t, err)
	want("after one was erased", burst(h, "alice"), 1)
	_, err = h.Create(by(t.Context(), "alice"), api.CreateRequest{ID: first[2]})
	runtest.WantError(t, "an id that is taken", err, api.ErrExists)
	project(t, b.Bus, first[0]) // else a new host does not see the close
	again := b.owning(mostOwned)
	want("after a restart", burst(again, "alice"), 0)
	_, err = again.Create(t.Context(), api.CreateRequest{})
	runtest.WantError(t, "a session of nobody", err, nil)
}

// TestOwnedRequestIsCut cuts the request as soon as the server has stored the session: the session counts.
func TestOwnedRequestIsCut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	h := b.owning(mostOwned)
	seen := make(chan *nats.Msg, 64)
	sub, err := b.Bus.Conn().ChanSubscribe("lash.s.>", seen)
	if err == nil {
		err = b.Bus.Conn().Flush()
	}
	runtest.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	for range 8 * mostOwned {
		ctx, cancel := context.WithCancel(by(t.Context(), "alice"))
		done := make(chan struct{})
		go func() { // ends with the create
			defer cancel()
			select {
			case <-seen:
			case <-done:
			}
		}()
		_, _ = h.Create(ctx, api.CreateRequest{}) // the session is created or refused, whatever this call returns
		close(done)
		<-ctx.Done()
	}
	made := 0
	for id, err := range b.Bus.Sessions(t.Context()) {
		runtest.NoError(t, err)
		if s, err := b.Host.State(t.Context(), id); err == nil && s.Owner == "alice" {
			made++
		}
	}
	if made > mostOwned {
		t.Errorf("got %d sessions, want at most %d", made, mostOwned)
	}
}

// TestOwnedBranches requests turns that branch: the waiting ones count.
func TestOwnedBranches(t *testing.T) {
	t.Parallel()
	for name, submit := range map[string]func(*session.Host, context.Context, api.TurnRequest) error{
		"now": func(h *session.Host, ctx context.Context, req api.TurnRequest) error {
			_, err := h.Submit(ctx, "mine", req)
			return err
		},
		"later": func(h *session.Host, ctx context.Context, req api.TurnRequest) error {
			_, err := h.SubmitAt(ctx, "mine", time.Now().Add(time.Hour), req)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			h, ctx := b.owning(mostOwned), by(t.Context(), "alice")
			_, err := h.Create(ctx, api.CreateRequest{ID: "mine"})
			runtest.NoError(t, err)
			_, err = h.Submit(ctx, "mine", ask("t0", "go"))
			runtest.NoError(t, err)
			for i := range 2 * mostOwned {
				req := ask(events.TurnID(fmt.Sprintf("b%d", i)), "go")
				req.WhenBusy = api.WhenBusyBranch
				if err := submit(h, ctx, req); isRefused(err) != (i >= mostOwned-1) {
					t.Errorf("branch %d beside the session: got %v, want refusals from %d on", i, err, mostOwned)
				}
			}
			_, err = h.Submit(ctx, "mine", ask("t1", "go"))
			runtest.WantError(t, "a turn that makes no session", err, nil)
		})
	}
}

// TestLongOwnedSessionsCost counts messages: a host without the limit sends none. With the limit a request costs one read
// of the changes, for any number of sessions.
func TestLongOwnedSessionsCost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 100 {
		id := events.SessionID(fmt.Sprintf("other-%d", i))
		_, err := b.Host.Create(by(t.Context(), "bob"), api.CreateRequest{ID: id})
		runtest.NoError(t, err)
		project(t, b.Bus, id)
	}
	const n = 20
	cost := func(name string, most int) (out, in uint64) {
		on := bustest.Open(t, b.Server)
		h, err := session.New(session.Config{Bus: on, MaxSessionsPerCaller: most, Plugins: session.NoPlugins()})
		runtest.NoError(t, err)
		create := func() {
			_, err := h.Create(by(t.Context(), name), api.CreateRequest{})
			runtest.NoError(t, err)
		}
		create()
		before := on.Conn().Stats()
		for range n {
			create()
		}
		after := on.Conn().Stats()
		return after.OutMsgs - before.OutMsgs, after.InMsgs - before.InMsgs
	}
	const room = n / 2
	tries := 0
	bustest.Eventually(t, "creates that take about one request and its answer more with a limit", func() bool { // a read without an answer in time is repeated
		tries++
		out, in := cost(fmt.Sprint("ann", tries), 0)
		limitedOut, limitedIn := cost(fmt.Sprint("alice", tries), 1000)
		t.Logf("%d creates: %d messages out and %d in without a limit, %d and %d with it", n, out, in, limitedOut, limitedIn)
		return limitedOut <= out+n+room && limitedIn <= in+2*n+room
	})
}

// TestStoredBytes fills the sessions of one owner: with the bytes that the log and the bodies have, what begins a session or a turn or adds a
// message is refused, of that owner alone, until a session is erased. A turn that runs goes on, and so does what adds nothing.
func TestStoredBytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const most = 1 << 20
	open := func() *session.Host {
		h, err := session.New(session.Config{Bus: bustest.Open(t, b.Server), MaxStoredPerCaller: most, Plugins: session.NoPlugins()})
		runtest.NoError(t, err)
		return h
	}
	h := open()
	alice, bob := by(t.Context(), "alice"), by(t.Context(), "bob")
	makes := func(ctx context.Context, id events.SessionID) error {
		_, err := h.Create(ctx, api.CreateRequest{ID: id})
		return err
	}
	for id, ctx := range map[events.SessionID]context.Context{"a1": alice, "a2": alice, "b": bob} {
		runtest.NoError(t, makes(ctx, id))
		project(t, b.Bus, id)
	}
	adds := map[string]func(ctx context.Context, id events.SessionID) error{
		"create": func(ctx context.Context, _ events.SessionID) error {
			_, err := h.Create(ctx, api.CreateRequest{})
			return err
		},
		"fork": func(ctx context.Context, id events.SessionID) error {
			_, err := h.Fork(ctx, id, api.CreateRequest{})
			return err
		},
		"turn": func(ctx context.Context, id events.SessionID) error {
			_, err := h.Submit(ctx, id, api.Ask("go"))
			return err
		},
		"input": func(ctx context.Context, id events.SessionID) error {
			_, err := h.Inject(ctx, id, api.InjectRequest{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}})
			return err
		},
		"message": func(ctx context.Context, id events.SessionID) error {
			_, err := h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Kind: events.NodeMessage, Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}}})
			return err
		},
	}
	adds["body"] = func(ctx context.Context, id events.SessionID) error {
		_, err := h.StoreBlob(ctx, id, []byte("go"))
		return err
	}
	refused := func(err error) bool {
		full, ok := errors.AsType[*api.LimitError](err)
		return ok && full.Limit == most && full.What == api.StoredBytes
	}
	large := api.Ask(strings.Repeat("x", most)) // a body of its own
	large.ID = "large"
	if _, err := h.Submit(alice, "a1", large); err != nil {
		t.Fatalf("the last one below the limit: got %v", err)
	}
	project(t, b.Bus, "a1")
	var want int64
	for _, id := range []events.SessionID{"a1", "a2"} {
		for e, err := range b.Bus.Log().Read(t.Context(), id, 1) {
			runtest.NoError(t, err)
			want += int64(len(e.Data))
		}
	}
	want += int64(most) // the body
	for what, on := range map[string]*session.Host{"this host": h, "a new host": open()} {
		if got, err := on.StoredByOwner(t.Context()); err != nil || got["alice"] < want || got["alice"] > want+1<<10 || got["bob"] > 1<<10 {
			t.Errorf("%s: got %v, %v, want %d of alice, or the JSON of the body more", what, got, err, want)
		}
	}
	for what, add := range adds {
		if err := add(alice, "a2"); !refused(err) {
			t.Errorf("%s by alice: got %v, want it refused", what, err)
		}
		runtest.WantError(t, fmt.Sprintf("%s by bob", what), add(bob, "b"), nil)
	}
	if _, err := h.Submit(alice, "a1", large); err != nil {
		t.Errorf("the same request again: got %v", err)
	}
	if _, _, err := h.Cancel(alice, "a1", "large", api.CancelRequest{}); err != nil {
		t.Errorf("cancel: got %v", err)
	}
	_, err := h.Erase(t.Context(), "a1", "unwanted")
	runtest.NoError(t, err)
	for what, add := range adds {
		runtest.WantError(t, fmt.Sprintf("%s after one was erased", what), add(alice, "a2"), nil)
	}
	if got, err := b.Host.StoredByOwner(t.Context()); err != nil || got != nil {
		t.Errorf("without a limit: got %v, %v, want nothing counted", got, err)
	}
}
