package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func TestMain(m *testing.M) {
	manyAtOnce()
	// Commands run in login shells. What somebody's profile does, or waits for, is none of the tests' business.
	_ = os.Setenv("BUILD_HOME", os.Getenv("HOME")) // where the caches of go build are
	_ = os.Setenv("HOME", "/no-home")
	bustest.VerifyTestMain(m)
}

// faults is what takes minutes: faults on three servers, and a kill at every request instead of every third.
var faults = flag.Bool("faults", false, "also inject faults on three servers, and kill at every request")

// manyAtOnce runs eight tests at once, whatever the processors, unless -parallel
// says otherwise: most of the time they wait for servers and for timeouts.
func manyAtOnce() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "8")
	}
}

// bundle is a server, a host and a model that plays a script. Workers are started by [bundle.work].
type bundle struct {
	*session.Host
	t      *testing.T
	ctx    context.Context // ends before the test is killed
	server *busembed.Server
	bus    *bus.Bus
	model  *model
	tools  *plugin.Tools
	trace  session.TraceFunc // of nodes that are started from then on
}

// limited is a context that ends with the test, and before the test is killed.
func limited(t *testing.T) context.Context {
	t.Helper()
	return limitedTo(t, 3*time.Minute)
}

// limitedTo is limited for a test that takes longer.
func limitedTo(t *testing.T, most time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	return ctx
}

// setup has a host, and a worker that plays the script.
func setup(t *testing.T, script ...step) *bundle {
	t.Helper()
	b := setupIdle(t, script...)
	b.work(b.bus)
	return b
}

// setupIdle has no worker yet.
func setupIdle(t *testing.T, script ...step) *bundle {
	t.Helper()
	return setupOn(t, busembed.Config{}, script...)
}

func setupOn(t *testing.T, cfg busembed.Config, script ...step) *bundle {
	t.Helper()
	b := &bundle{t: t, ctx: limited(t), server: bustest.Server(t, cfg), model: &model{t: t, script: script}, tools: plugin.NewTools()}
	b.bus = bustest.Open(t, b.server)
	b.Host = b.newHost(b.bus)
	return b
}

func (b *bundle) newHost(on *bus.Bus) *session.Host {
	b.t.Helper()
	h, err := session.New(session.Config{Bus: on, Logger: zaptest.NewLogger(b.t), NoPlugins: true})
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

// otherHost is a host on a connection of its own, as in another process.
func (b *bundle) otherHost() *session.Host {
	b.t.Helper()
	return b.newHost(bustest.Open(b.t, b.server))
}

// work starts a worker that ends with the test, and returns how to stop it at
// once, in the middle of whatever it does.
func (b *bundle) work(on *bus.Bus) (kill func()) {
	b.t.Helper()
	w := b.newWorker(on)
	if err := w.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			w.Stop(now)
		})
	}
	b.t.Cleanup(stop)
	return stop
}

// newWorker is a worker that is not started.
func (b *bundle) newWorker(on *bus.Bus) *workers.Node {
	b.t.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: turnRoles(),
		Bus:   on, Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return b.tools }, Logger: zaptest.NewLogger(b.t),
		ModelRetry: workers.ModelRetry{Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return w
}

// turnRoles are those of a node that does nothing but run turns, with their tools.
func turnRoles() []workers.Role { return []workers.Role{workers.RoleTurn, workers.RoleTool} }

// node starts a node with these plugins beside the standard protocol. The
// bundle's host is the node's from then on.
func (b *bundle) node(factories ...plugin.Factory) *workers.Node {
	b.t.Helper()
	n, _ := b.nodeOn(b.bus, factories...)
	b.Host = n.Host()
	return n
}

// newNodeOn is a node that is not started. A plugin of the standard protocol's id replaces that.
func (b *bundle) newNodeOn(on *bus.Bus, factories ...plugin.Factory) *workers.Node {
	b.t.Helper()
	h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	if err != nil {
		b.t.Fatal(err)
	}
	n, err := workers.NewNode(workers.Config{
		Bus: on, Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Provider: "scripted",
		Plugins: h, Logger: zaptest.NewLogger(b.t), Trace: b.trace, ModelRetry: workers.ModelRetry{Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// nodeOn starts a node that ends with the test, and returns how to stop it at once.
func (b *bundle) nodeOn(on *bus.Bus, factories ...plugin.Factory) (n *workers.Node, kill func()) {
	b.t.Helper()
	n = b.newNodeOn(on, factories...)
	return n, b.startNode(n)
}

// startNode starts a node that ends with the test, and returns how to stop it at once.
func (b *bundle) startNode(n *workers.Node) (kill func()) {
	b.t.Helper()
	if err := n.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			n.Stop(now)
		})
	}
	b.t.Cleanup(kill)
	return kill
}

// open creates a session.
func (b *bundle) open(req api.CreateRequest) events.SessionID {
	b.t.Helper()
	id, err := b.Create(b.ctx, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// say appends user messages of one text each and returns their node ids.
func (b *bundle) say(id events.SessionID, texts ...string) []events.NodeID {
	b.t.Helper()
	got, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says(texts...)})
	if err != nil {
		b.t.Fatal(err)
	}
	return got.IDs
}

// says are user messages whose ids are their texts.
func says(texts ...string) []api.AppendNode {
	var list []api.AppendNode
	for _, s := range texts {
		list = append(list, api.AppendNode{Message: &events.Message{ID: events.MessageID(s), Role: events.RoleUser, Parts: []events.Part{text(s)}}})
	}
	return list
}

// run runs a turn to its end.
func (b *bundle) run(id events.SessionID, turn events.TurnID, parts ...events.Part) api.TurnResult {
	b.t.Helper()
	r, err := b.Run(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: parts}})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *bundle) submit(id events.SessionID, turn events.TurnID, parts ...events.Part) {
	b.t.Helper()
	if _, err := b.Submit(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: parts}}); err != nil {
		b.t.Fatal(err)
	}
}

// await waits until the session's state is as wanted, looking at every commit.
func (b *bundle) await(id events.SessionID, what string, ok func(*projector.State) bool) *projector.State {
	b.t.Helper()
	live, err := b.bus.Live(id, 1024)
	if err != nil {
		b.t.Fatal(err)
	}
	defer live.Close()
	must(b.t, "flush", b.bus.Conn().Flush(), nil) // the host may look over another connection
	for {
		s := b.state(id)
		if ok(s) {
			return s
		}
		select {
		case <-live.C:
		case <-time.After(time.Second): // tests take live messages away
		case <-b.ctx.Done():
			b.t.Fatalf("await %s: %v", what, context.Cause(b.ctx))
		}
	}
}

// receive waits for what comes, or for the close of the channel, in the test's own goroutine.
func receive[T any](b *bundle, what string, from <-chan T) T {
	b.t.Helper()
	select {
	case got := <-from:
		return got
	case <-b.ctx.Done():
		b.t.Fatalf("wait for %q: got nothing, %v", what, context.Cause(b.ctx))
		panic("unreachable")
	}
}

// ended waits for the end of a turn.
func (b *bundle) ended(id events.SessionID, turn events.TurnID) projector.TurnRecord {
	b.t.Helper()
	var record *projector.TurnRecord
	b.await(id, "end of "+string(turn), func(s *projector.State) bool {
		var err error
		if record, err = s.Record(turn); err != nil {
			b.t.Fatal(err)
		}
		return record != nil
	})
	return *record
}

func (b *bundle) state(id events.SessionID) *projector.State {
	b.t.Helper()
	s, err := b.State(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// last is the newest sequence of a session.
func (b *bundle) last(id events.SessionID) events.Seq {
	b.t.Helper()
	seq, err := b.bus.Log().Last(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return seq
}

// history lists the events of a session in order.
func (b *bundle) history(id events.SessionID) []events.Event {
	b.t.Helper()
	var list []events.Event
	for e, err := range b.bus.Log().Read(b.ctx, id, 1) {
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, e.Commit.Events...)
	}
	return list
}

// find lists the payloads of one type in a session's history.
func find[P events.Payload](b *bundle, id events.SessionID) []P {
	b.t.Helper()
	var list []P
	for _, e := range b.history(id) {
		if p, ok := e.Payload.(P); ok {
			list = append(list, p)
		}
	}
	return list
}

// commitWith appends a commit past every check of the host, as a program of another make might.
func (b *bundle) commitWith(id events.SessionID, payload events.Payload) {
	b.t.Helper()
	last := b.last(id)
	c := &events.Commit{
		ID: events.CommitID(fmt.Sprintf("foreign-%d", last)), Session: id, At: 1,
		Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", payload)},
	}
	if _, err := b.bus.Log().Append(b.ctx, c, last); err != nil {
		b.t.Fatal(err)
	}
}

// messages renders what a session shows.
func (b *bundle) messages(id events.SessionID) []string {
	b.t.Helper()
	v, err := b.View(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return transcript(v.Messages)
}

// transcript renders messages, one line each: role, text, calls, results.
func transcript(list []events.Message) []string {
	lines := []string{}
	for _, m := range list {
		words := []string{string(m.Role)}
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartToolCall:
				words = append(words, fmt.Sprintf("%s:%s%s", p.Call, p.Tool, p.Args))
			case events.PartToolResult:
				words = append(words, fmt.Sprintf("%s=%s", p.Call, p.Text))
			case events.PartText, events.PartReasoning, events.PartAttachment:
				words = append(words, p.Text)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

// call is a part that calls a tool; its id is the tool's name with a number.
func call(id events.CallID, tool, args string) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: tool, Args: []byte(args)}
}

// must fails the test unless err is want.
func must(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// alike is equal for what Go does not compare.
func alike(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", what, got, want)
	}
}

func equalLists[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s: got %v, want %v", what, got, want)
			return
		}
	}
}
