package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/lash-go/lash/integration/internal/servicetest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// serving is a node whose sessions are as package servicetest requires. It ends with the test.
func serving(t *testing.T, on *bus.Bus) (n *workers.Node, kill func()) {
	t.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{servicetest.Plugin()}})
	runtest.NoError(t, err)
	n, err = workers.NewNode(workers.Config{
		Bus: on, Plugins: builder, Logger: zaptest.NewLogger(t), Provider: "scripted", Environments: servicetest.Environments(),
		Providers: map[string]llm.Provider{"scripted": scripted.New(replies)},
	})
	runtest.NoError(t, err)
	runtest.NoError(t, n.Start(harness.Context(t)))
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

// TestServiceHost runs the suite on the host in its process.
func TestServiceHost(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		n, _ := serving(t, bustest.Start(t))
		return servicetest.Started{Service: n.Host()}
	})
}

// TestServiceClient runs the suite on a client that reads the log by itself, and sends the rest to a node.
func TestServiceClient(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		server := bustest.Server(t, busembed.Config{})
		on := bustest.Open(t, server)
		serving(t, on)
		return servicetest.Started{Service: harness.Dial(t, harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))}
	})
}

// TestSmokeServiceHTTP runs the suite on a client over HTTP, and a node that serves it.
func TestSmokeServiceHTTP(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		on := bustest.Start(t)
		n, _ := serving(t, on)
		d := (&harness.System{T: t, Ctx: t.Context(), Bus: on, Host: n.Host()}).ServeHTTP(httpapi.Config{})
		c, err := overWeb(on, d.URL, "admin"+harness.TokenSecret)
		runtest.WantError(t, "client", err, nil)
		t.Cleanup(c.web.client.CloseIdleConnections)
		return servicetest.Started{Service: c, Caller: "admin"}
	})
}

// TestServiceLateRepeat runs the suite on a client, and then repeats every request, as a client does that lost
// every response.
func TestServiceLateRepeat(t *testing.T) {
	t.Parallel()
	seen := &sync.Map{}
	t.Run("suite", func(t *testing.T) {
		servicetest.Test(t, func(t *testing.T) servicetest.Started {
			server := bustest.Server(t, busembed.Config{})
			on := bustest.Open(t, server)
			serving(t, on)
			r := record(t, bustest.Open(t, server))
			c := harness.Dial(t, harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
			return servicetest.Started{Service: c, Finish: func() { r.repeat(harness.Context(t), seen) }}
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

// TestServiceDiscovered discovers two nodes that serve sessions, and reads their statistics.
func TestServiceDiscovered(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	serving(t, bustest.Open(t, server))
	serving(t, bustest.Open(t, server))
	on := harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}})
	c := harness.Dial(t, on)
	for i := range 5 {
		_, err := c.Create(harness.Context(t), api.CreateRequest{ID: events.SessionID(fmt.Sprintf("s%d", i))})
		runtest.NoError(t, err)
	}
	_, err := c.Create(harness.Context(t), api.CreateRequest{ID: "s0"})
	runtest.WantError(t, "create again", err, api.ErrExists)
	requests, answered, refused := 0, int64(0), int64(0)
	workers := make(map[string]bool)
	for _, s := range harness.StatsOf(t, on, 2) {
		runtest.Equal(t, "name", s.Name, "lash-api")
		workers[s.Metadata["worker"]] = true
		for _, e := range s.Endpoints {
			if e.Name != "create" {
				continue
			}
			runtest.Equal(t, "subject", e.Subject, "lash.api.create")
			var own bus.OperationStats
			runtest.NoError(t, json.Unmarshal(e.Data, &own))
			requests, answered, refused = requests+e.NumRequests, answered+own.Answered, refused+own.Errors["session_exists"]
		}
	}
	runtest.Equal(t, "instances", len(workers), 2)
	runtest.Equal(t, "requests", requests, 6)
	runtest.Equal(t, "answered", answered, 6)
	runtest.Equal(t, "refused", refused, 1)
}

// TestServiceSurvivesKill kills one of two nodes while requests run.
func TestServiceSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := harness.Context(t)
	server := bustest.Server(t, busembed.Config{})
	first := bustest.Open(t, server)
	serving(t, first)
	serving(t, bustest.Open(t, server))
	c, err := client.New(client.Config{Bus: harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}}), Silence: 200 * time.Millisecond})
	runtest.NoError(t, err)
	id, err := c.Create(ctx, api.CreateRequest{})
	runtest.NoError(t, err)
	const n = 100
	for i := range n {
		if i == n/2 {
			first.Close() // as when its process dies: it answers nothing, and gives nothing back
		}
		if _, err := c.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages(fmt.Sprintf("m%d", i))}); err != nil {
			t.Fatalf("append %d: %v", i, err)
		}
	}
	v, err := c.View(ctx, id)
	runtest.NoError(t, err)
	runtest.Equal(t, "messages", len(v.Messages), n)
	for i, m := range v.Messages {
		runtest.Equal(t, "message", m.Text(), fmt.Sprintf("m%d", i))
	}
}

// TestServiceWithoutNodes watches and reads a session whose nodes are all dead.
func TestServiceWithoutNodes(t *testing.T) {
	t.Parallel()
	ctx := harness.Context(t)
	server := bustest.Server(t, busembed.Config{})
	n, kill := serving(t, bustest.Open(t, server))
	id, err := n.Host().Create(ctx, api.CreateRequest{Nodes: harness.UserMessages("a")})
	runtest.NoError(t, err)
	_, err = n.Host().Run(ctx, id, api.Ask("x"))
	runtest.NoError(t, err)
	kill()
	c := harness.Dial(t, harness.OpenReader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))
	s, err := c.State(ctx, id)
	runtest.NoError(t, err)
	for seen, err := range c.Observe(ctx, id, 0) {
		runtest.NoError(t, err)
		if seen.Seq == s.Seq {
			break
		}
	}
	records, err := s.Records()
	runtest.NoError(t, err)
	r, err := c.Await(ctx, id, records[0].ID)
	runtest.WantError(t, "await of what has ended", err, nil)
	runtest.Equal(t, "text", r.Text, "you said x")
	bustest.Eventually(t, "no responder for an inject, without a doubt", func() bool { // another error where the time ends in the middle of a try
		short, cancel := context.WithTimeout(ctx, 2*time.Second) // several tries
		defer cancel()
		_, err := c.Inject(short, id, api.InjectRequest{Parts: harness.UserMessages("b")[0].Message.Parts})
		return errors.Is(err, bus.ErrNoResponder) && !errors.Is(err, events.ErrOutcomeUnknown)
	})
}
