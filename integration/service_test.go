package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/servicetest"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// serving is a node whose sessions are as package servicetest wants them. It ends with the test.
func serving(t *testing.T, on *bus.Bus) (n *workers.Node, kill func()) {
	t.Helper()
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{servicetest.Plugin()}})
	if err != nil {
		t.Fatal(err)
	}
	n, err = workers.NewNode(workers.Config{
		Bus: on, Plugins: stack, Logger: zaptest.NewLogger(t), Provider: "scripted",
		Providers: map[string]llm.Provider{"scripted": scripted.New(replies)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(limited(t)); err != nil {
		t.Fatal(err)
	}
	stopped := false
	kill = func() {
		if stopped {
			return
		}
		stopped = true
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		n.Stop(now)
	}
	t.Cleanup(kill)
	return n, kill
}

func replies(_ context.Context, req llm.Request) (scripted.Answer, error) {
	parts, hang := servicetest.Reply(req.Messages[len(req.Messages)-1])
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}, Hang: hang}, nil
}

// reader opens a bus as a client does, that makes nothing.
func reader(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.OpenReader(limited(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func dial(t *testing.T, on *bus.Bus) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Bus: on, Actor: "ide", Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestServiceHost runs the suite on the host in its process.
func TestServiceHost(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		n, _ := serving(t, bustest.Start(t))
		return servicetest.Started{Service: n.Host()}
	})
}

// TestServiceClient runs it on a client that reads by itself, and asks a node.
func TestServiceClient(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		server := bustest.Server(t, busembed.Config{})
		on := bustest.Open(t, server)
		serving(t, on)
		return servicetest.Started{Service: dial(t, reader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))}
	})
}

// TestServiceHTTP runs it on a client over HTTP, to a node that serves.
func TestServiceHTTP(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		on := bustest.Start(t)
		n, _ := serving(t, on)
		d := (&bundle{t: t, ctx: t.Context(), bus: on, Host: n.Host()}).door(httpapi.Config{})
		c, err := overWeb(on, d.url, "admin"+secret)
		must(t, "client", err, nil)
		t.Cleanup(c.web.client.CloseIdleConnections)
		return servicetest.Started{Service: c, Caller: "admin"}
	})
}

// TestWebRows has each operation that is named over NATS be written in JSON by the client over HTTP.
func TestWebRows(t *testing.T) {
	t.Parallel()
	for name, op := range operation.Named() {
		other := []*operation.Row{&operation.Configure.Row, &operation.TakeUpdates.Row} // which have methods of their own
		if r := op.Described(); webRows()[r] == nil && !slices.Contains(other, r) {
			t.Errorf("%s: the client over HTTP does not ask for it", name)
		}
	}
}

// recorder hears every request for the session service, and what is answered.
type recorder struct {
	t        *testing.T
	bus      *bus.Bus
	mu       sync.Mutex
	requests []*nats.Msg
	answers  map[string][]byte // by the request's inbox
	subs     []*nats.Subscription
	heard    int64 // messages
}

func record(t *testing.T, on *bus.Bus) *recorder {
	t.Helper()
	r := &recorder{t: t, bus: on, answers: make(map[string][]byte)}
	for subject, heard := range map[string]func(*nats.Msg){
		"lash.api.>": func(m *nats.Msg) { r.requests = append(r.requests, m) },
		"_INBOX.>":   func(m *nats.Msg) { r.answers[m.Subject] = m.Data },
	} {
		sub, err := on.Conn().Subscribe(subject, func(m *nats.Msg) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.heard++
			heard(m)
		})
		if err != nil {
			t.Fatal(err)
		}
		r.subs = append(r.subs, sub)
		t.Cleanup(func() { _ = sub.Unsubscribe() })
	}
	if err := on.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return r
}

// behind reports whether something came that is not taken in yet.
func (r *recorder) behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	came := int64(0)
	for _, sub := range r.subs {
		waiting, _, err := sub.Pending()
		if err != nil {
			r.t.Fatal(err)
		}
		delivered, err := sub.Delivered()
		if err != nil {
			r.t.Fatal(err)
		}
		came += delivered + int64(waiting)
	}
	return r.heard < came
}

// answered are the requests that were done, with what was answered.
func (r *recorder) answered() (requests []*nats.Msg, answers []api.Answer) {
	r.t.Helper()
	if err := r.bus.Conn().Flush(); err != nil {
		r.t.Fatal(err)
	}
	for r.behind() { // what came is taken in beside
		time.Sleep(time.Millisecond)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.requests {
		var a api.Answer
		if err := events.DecodePayload(r.answers[m.Reply], &a); err == nil && a.Error.IsZero() {
			requests, answers = append(requests, m), append(answers, a)
		}
	}
	return requests, answers
}

// ends are the last sequences of all sessions.
func (r *recorder) ends(ctx context.Context) map[events.SessionID]events.Seq {
	r.t.Helper()
	ends := make(map[events.SessionID]events.Seq)
	for id, err := range r.bus.Sessions(ctx) {
		if err == nil {
			ends[id], err = r.bus.Log().Last(ctx, id)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return ends
}

// asOfNow are operations whose answer to a repeat tells how things stand then.
var asOfNow = []operation.Name{
	operation.ToolState.Name, operation.ToolSources.Name, operation.MonitorSnapshot.Name, operation.Actions.Name, operation.CancelTask.Name, operation.AppendNodes.Name,
	operation.RegisterTask.Name, operation.ProgressTask.Name, operation.EndTask.Name, operation.RequestCancel.Name,
}

// repeat sends every request that was done once more, long after, as one whose
// answer was lost, and expects the same answers and the same histories.
func (r *recorder) repeat(ctx context.Context, seen *sync.Map) {
	r.t.Helper()
	requests, answers := r.answered()
	before := r.settled(ctx)
	for i, m := range requests {
		op := operation.Name(strings.TrimPrefix(m.Subject, "lash.api."))
		if op == operation.InvokeAction.Name {
			continue
		}
		seen.Store(op, true)
		reply, err := r.bus.Conn().RequestWithContext(ctx, m.Subject, m.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		var again api.Answer
		if err := events.DecodePayload(reply.Data, &again); err != nil {
			r.t.Fatal(err)
		}
		switch {
		case op == operation.Submit.Name && again.Error.Code == "different_content":
			continue // it was accepted before any history had the turn, and came to nothing
		case op == operation.TakeUpdates.Name:
			if got, want := updatesOf(r.t, again.Body), updatesOf(r.t, answers[i].Body); !slices.Equal(got, want) {
				r.t.Errorf("updates once more: got %v, want %v", got, want)
			}
			continue
		}
		if !again.Error.IsZero() || !slices.Contains(asOfNow, op) && !bytes.Equal(again.Body, answers[i].Body) {
			r.t.Errorf("%s once more: got %+v, want what was answered first: %+v", op, again, answers[i])
		}
	}
	if after := r.settled(ctx); !maps.Equal(after, before) {
		r.t.Errorf("last sequences after every request once more: got %v, want %v", after, before)
	}
}

// updatesOf are the updates of an answer.
func updatesOf(t *testing.T, body []byte) []api.MonitorEvent {
	t.Helper()
	var u api.MonitorUpdates
	if err := events.DecodePayload(body, &u); err != nil {
		t.Fatal(err)
	}
	return u.Events
}

// settled are the last sequences once the queue is empty and no history has
// grown between two looks: a wake that was just published is not in the queue yet.
func (r *recorder) settled(ctx context.Context) map[events.SessionID]events.Seq {
	r.t.Helper()
	for last := r.ends(ctx); ; {
		time.Sleep(50 * time.Millisecond)
		now := r.ends(ctx)
		if maps.Equal(now, last) && r.queued(ctx) == 0 {
			return now
		}
		last = now
	}
}

// queued is how many sessions have a wake.
func (r *recorder) queued(ctx context.Context) int {
	r.t.Helper()
	stream, err := jetstreamOf(r.bus).Stream(ctx, "lash-work")
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := stream.Info(ctx, jetstream.WithSubjectFilter("lash.work.turn.>"))
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list.State.Subjects)
}

func jetstreamOf(b *bus.Bus) jetstream.JetStream {
	js, _ := jetstream.New(b.Conn()) // fails for bad options only
	return js
}

// TestServiceLateRepeat runs the suite on a client, and then asks for
// everything once more, as who lost every answer would.
func TestServiceLateRepeat(t *testing.T) {
	t.Parallel()
	seen := &sync.Map{}
	t.Run("suite", func(t *testing.T) {
		servicetest.Test(t, func(t *testing.T) servicetest.Started {
			server := bustest.Server(t, busembed.Config{})
			on := bustest.Open(t, server)
			serving(t, on)
			r := record(t, bustest.Open(t, server))
			c := dial(t, reader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
			return servicetest.Started{Service: c, Finish: func() { r.repeat(limited(t), seen) }}
		})
	})
	for op := range operation.Named() {
		if op == operation.InvokeAction.Name || op == operation.ApplyExtension.Name { // which is never repeated; which the suite's protocol refuses
			continue
		}
		if _, ok := seen.Load(op); !ok {
			t.Errorf("%s: got no repeat of it", op)
		}
	}
}

// statsOf asks every instance of the service for its statistics, as any NATS tool does, until n have answered.
func statsOf(t *testing.T, on *bus.Bus, n int) []micro.Stats {
	t.Helper()
	inbox := on.Conn().NewRespInbox()
	sub, err := on.Conn().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := on.Conn().PublishRequest("$SRV.STATS.lash-api", inbox, nil); err != nil {
		t.Fatal(err)
	}
	var list []micro.Stats
	for len(list) < n {
		m, err := sub.NextMsgWithContext(limited(t))
		if err != nil {
			t.Fatal(err)
		}
		var s micro.Stats
		if err := json.Unmarshal(m.Data, &s); err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// TestServiceDiscovered finds two nodes that serve sessions, and reads what they did.
func TestServiceDiscovered(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	serving(t, bustest.Open(t, server))
	serving(t, bustest.Open(t, server))
	on := reader(t, bus.Config{Options: []nats.Option{server.InProcess()}})
	c := dial(t, on)
	for i := range 5 {
		if _, err := c.Create(limited(t), api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", i))}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Create(limited(t), api.CreateRequest{ID: "s0"})
	must(t, "create again", err, api.ErrExists)
	requests, answered, refused := 0, int64(0), int64(0)
	workers := make(map[string]bool)
	for _, s := range statsOf(t, on, 2) {
		equal(t, "name", s.Name, "lash-api")
		workers[s.Metadata["worker"]] = true
		for _, e := range s.Endpoints {
			if e.Name != "create" {
				continue
			}
			equal(t, "subject", e.Subject, "lash.api.create")
			var own bus.OperationStats
			if err := json.Unmarshal(e.Data, &own); err != nil {
				t.Fatal(err)
			}
			requests, answered, refused = requests+e.NumRequests, answered+own.Answered, refused+own.Errors["session_exists"]
		}
	}
	equal(t, "instances", len(workers), 2)
	equal(t, "requests", requests, 6)
	equal(t, "answered", answered, 6)
	equal(t, "refused", refused, 1)
}

// TestServiceSurvivesKill kills one of two nodes while requests are under way.
func TestServiceSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	server := bustest.Server(t, busembed.Config{})
	first := bustest.Open(t, server)
	serving(t, first)
	serving(t, bustest.Open(t, server))
	c, err := client.New(client.Config{Bus: reader(t, bus.Config{Options: []nats.Option{server.InProcess()}}), Silence: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.Create(ctx, api.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100
	for i := range n {
		if i == n/2 {
			first.Close() // as when its process dies: it answers nothing, and gives nothing back
		}
		if _, err := c.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: says(fmt.Sprintf("m%d", i))}); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	v, err := c.View(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "messages", len(v.Messages), n)
	for i, m := range v.Messages {
		equal(t, "message", m.Text(), fmt.Sprintf("m%d", i))
	}
}

// TestServiceWithoutNodes watches and reads a session that every node of is dead.
func TestServiceWithoutNodes(t *testing.T) {
	t.Parallel()
	ctx := limited(t)
	server := bustest.Server(t, busembed.Config{})
	n, kill := serving(t, bustest.Open(t, server))
	id, err := n.Host().Create(ctx, api.CreateRequest{Nodes: says("a")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Host().Run(ctx, id, api.Ask("x")); err != nil {
		t.Fatal(err)
	}
	kill()
	c := dial(t, reader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	s, err := c.State(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for seen, err := range c.Observe(ctx, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen.Seq == s.Seq {
			break
		}
	}
	records, err := s.Records()
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Await(ctx, id, records[0].ID)
	must(t, "await of what has ended", err, nil)
	equal(t, "text", r.Text, "you said x")
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = c.Inject(short, id, api.InjectRequest{Parts: says("b")[0].Message.Parts})
	must(t, "inject", err, bus.ErrNobody)
	if errors.Is(err, events.ErrOutcomeUnknown) {
		t.Errorf("inject that nobody took: got %v, want no doubt about it", err)
	}
}
