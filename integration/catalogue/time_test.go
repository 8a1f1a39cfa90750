package catalogue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

func timeEntries() []entry {
	return []entry{
		{"T33", "hooks, tools and code have the recorded time", "a node whose clock is ahead by an hour", "it runs again what another node had begun", "both see the time of the commit after which the effect could begin", testRecordedTime},
	}
}

// commitTime is the time of the first commit with an event for which is reports true.
func commitTime(b *harness.System, id events.SessionID, what string, is func(events.Payload) bool) time.Time {
	b.T.Helper()
	at, ok := findCommit(b, id, is)
	if !ok {
		b.T.Fatalf("commit of %s: got none", what)
	}
	return at
}

func findCommit(b *harness.System, id events.SessionID, is func(events.Payload) bool) (time.Time, bool) {
	b.T.Helper()
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(b.T, "read", err, nil)
		for _, ev := range e.Commit.Events {
			if is(ev.Payload) {
				return e.Commit.At.Time(), true
			}
		}
	}
	return time.Time{}, false
}

// hookRan reports whether an event is the record of the hooks of a point.
func hookRan(point events.HookPoint) func(events.Payload) bool {
	return func(p events.Payload) bool {
		ran, ok := p.(*events.HookRan)
		return ok && ran.Point == point
	}
}

func is[P events.Payload](p events.Payload) bool { _, ok := p.(P); return ok }

// returnedCall reports whether an event has the result of a call.
func returnedCall(call int64) func(events.Payload) bool {
	return func(p events.Payload) bool {
		r, ok := p.(*events.ToolReturned)
		return ok && r.Results[0].Call == call
	}
}

// seenTime is a time that a plugin got in a place.
type seenTime struct {
	place string
	at    time.Time
}

// watchingTime notes the time of every effect. Its tool "second" waits in its first run, and its hook before the second model call
// calls meanwhile.
func watchingTime(seen chan<- seenTime, held chan<- struct{}, meanwhile func()) plugin.Factory {
	return harness.PluginOf("watching", func(r *plugin.Registrar) {
		note := func(place string, host plugin.ClockHost) { seen <- seenTime{place, host.Now()} }
		r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			note("before_turn", in.Host)
			return nil, nil
		})
		r.BeforeModelCall(func(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
			note(fmt.Sprint("before_model ", in.Iteration), in.Host)
			if in.Iteration == 1 {
				meanwhile()
			}
			return nil, nil
		})
		r.AuthorizeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			note("before_tool "+in.Tool, in.Host)
			if in.Tool == "asked" {
				return []plugin.Directive{plugin.Ask("May it?")}, nil
			}
			return nil, nil
		})
		r.AfterTurn(func(_ context.Context, in plugin.TurnResultContext) ([]plugin.Directive, error) {
			note("after_turn", in.Host)
			return nil, nil
		})
		tool := func(name string, serial bool, run func(context.Context, plugin.Call) error) {
			plugin.AddTool(r, plugin.Tool{Name: name, Effects: events.EffectsIdempotent, Serial: serial}, func(ctx context.Context, call plugin.Call, _ struct{}) (string, error) {
				note(name, call.Host)
				return "", run(ctx, call)
			})
		}
		plain := func(context.Context, plugin.Call) error { return nil }
		tool("plain", false, plain)
		tool("asked", false, plain)
		tool("first", true, plain)
		tool("second", true, func(ctx context.Context, call plugin.Call) error {
			if call.Again {
				return call.Nested(ctx, 0, []plugin.NestedCall{{Tool: "plain"}})[0].Err
			}
			held <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
	})
}

func testRecordedTime(t *testing.T) {
	seen, held := make(chan seenTime, 64), make(chan struct{}, 1)
	b := harness.StartIdle(t, harness.Reply(harness.Call("a", "asked", "{}"), harness.Call("b", "plain", "{}"), harness.Call("c", "first", "{}"), harness.Call("d", "second", "{}")),
		harness.Reply(harness.Text("done")), harness.Reply(harness.Text("with the other effort")))
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), watchingTime(seen, held, func() {}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the held call", held)
	kill()
	runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
	ahead := bustest.Open(t, b.Server)
	ahead.Later(time.Hour)
	b.StartNodeOn(ahead, watchingTime(seen, held, func() { // a commit of another process, with another time
		bustest.Eventually(t, "the result of the second call", func() bool {
			_, ok := findCommit(b, id, returnedCall(3))
			return ok
		})
		late := bustest.Open(t, b.Server)
		late.Later(2 * time.Hour)
		err := b.NewHost(late).Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Effort = "low"; return c }})
		runtest.WantError(t, "configure", err, nil)
	}))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	close(seen)
	times := make(map[string][]time.Time)
	for s := range seen {
		times[s.place] = append(times[s.place], s.at)
	}
	check := func(place string, runs int, want time.Time) {
		t.Helper()
		if len(times[place]) != runs {
			t.Errorf("%s: got %v, want %d of them", place, times[place], runs)
		}
		for _, got := range times[place] {
			if !got.Equal(want) {
				t.Errorf("%s: got %v, want %v", place, got, want)
			}
		}
	}
	replied := commitTime(b, id, "the reply", is[*events.ModelReplied])
	gated := commitTime(b, id, "the hooks before the calls", hookRan(events.PointBeforeTool))
	check("before_turn", 1, commitTime(b, id, "the start", is[*events.TurnStarted]))
	check("before_model 0", 1, commitTime(b, id, "the hooks before the turn", hookRan(events.PointBeforeTurn)))
	check("before_tool asked", 1, replied)
	check("asked", 1, commitTime(b, id, "the answer", is[*events.ToolApprovalGiven]))
	check("first", 1, commitTime(b, id, "plain", returnedCall(1)))
	check("second", 2, commitTime(b, id, "first", returnedCall(2)))
	check("before_model 1", 1, commitTime(b, id, "second", returnedCall(3)))
	inner := times["plain"]
	runtest.Equal(t, "runs of plain", len(inner), 2)
	runtest.Equal(t, "the model's call of plain", inner[0].Equal(gated), true)
	runtest.Equal(t, "the call of second", inner[1].Equal(commitTime(b, id, "first", returnedCall(2))), true)

	c := harness.StartIdle(t, harness.Program("print(int(time_now() * 1000 + 0.5))\nhold()"), harness.Reply(harness.Text("done")))
	c.AddCodeTools()
	plugin.AddTool(c.Tools, plugin.Tool{Name: "hold", Effects: events.EffectsIdempotent}, func(ctx context.Context, call plugin.Call, _ struct{}) (string, error) {
		if call.Again {
			return "", nil
		}
		held <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	kill = c.StartCodeNode(bustest.Open(t, c.Server))
	id = c.Open(harness.CodeSession())
	c.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(c, "the held program", held)
	kill()
	ahead = bustest.Open(t, c.Server)
	ahead.Later(time.Hour)
	c.StartCodeNodeWith(workers.Config{Bus: ahead})
	runtest.Equal(t, "end", c.AwaitTurn(id, "t1").End, events.EndFinished)
	want := commitTime(c, id, "the program", is[*events.ModelReplied])
	runtest.Equal(t, "time of the program", c.Outputs(id)[0], fmt.Sprintf("%d\n", want.UnixMilli()))
}
