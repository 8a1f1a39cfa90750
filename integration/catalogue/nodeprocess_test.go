package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// nodeVariable is the environment variable that makes a process a node, see [process].
const nodeVariable = "LASH_NODE_PROCESS"

// nodeProcess is the configuration of such a process.
type nodeProcess struct {
	URL, Subject string
	Tools        []events.ToolEntry
	Plugins      string // of [processPlugins]
}

// processPlugins are plugins that need the host of the node's own process. They send reports to the test, and wait
// for its response before they continue.
var processPlugins = map[string]func(report reporter) []plugin.Factory{
	"delegates": func(reporter) []plugin.Factory { return []plugin.Factory{delegates()} },
	"titles":    func(report reporter) []plugin.Factory { return []plugin.Factory{titles(report)} },
	"replacing": replacing,
}

// reporter receives what happens in the process. The error is the cause of the end of ctx.
type reporter func(ctx context.Context, what string) error

// question is a request of the process to the test, and verdictOf the response.
type question struct {
	Model  *llm.Request
	Call   *plugin.Call
	Tool   string
	Args   json.RawMessage
	Report string
}

type verdictOf struct {
	Answer  scripted.Answer
	Refused *llm.Error // of the model
	Result  plugin.Result
	Failed  string
}

// TestChildNode is a node in a process of its own, until it is killed. Its model and its tools are those of the test.
func TestChildNode(t *testing.T) {
	notification := os.Getenv(nodeVariable)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the test has gone
	}()
	var cfg nodeProcess
	runtest.WantError(t, "configuration", json.Unmarshal([]byte(notification), &cfg), nil)
	on, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: cfg.URL}))
	runtest.NoError(t, err)
	request := func(ctx context.Context, q question) (verdictOf, error) {
		var a verdictOf
		data, err := json.Marshal(q)
		if err != nil {
			return a, err
		}
		m, err := on.Conn().RequestWithContext(ctx, cfg.Subject, data)
		if err != nil {
			return a, err
		}
		return a, json.Unmarshal(m.Data, &a)
	}
	var factories []plugin.Factory
	if cfg.Plugins != "" {
		factories = processPlugins[cfg.Plugins](func(ctx context.Context, what string) error {
			_, err := request(ctx, question{Report: what})
			return err
		})
	}
	factories = append(factories, plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return remoteTools(t, cfg.Tools, request) }))
	plugins, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	runtest.WantError(t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Plugins: plugins, Provider: "scripted", ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: 2 * time.Millisecond},
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			a, err := request(ctx, question{Model: &req})
			if err == nil && a.Refused != nil {
				err = a.Refused
			}
			return a.Answer, err
		})},
	})
	runtest.WantError(t, "node", err, nil)
	runtest.WantError(t, "start", n.Start(t.Context()), nil)
	<-t.Context().Done() // it never ends by itself
}

// remoteTools are tools that run in the test's process.
func remoteTools(t *testing.T, entries []events.ToolEntry, request func(context.Context, question) (verdictOf, error)) *plugin.Tools {
	set := plugin.NewTools()
	for _, e := range entries {
		schema := new(jsonschema.Schema)
		runtest.WantError(t, "schema", json.Unmarshal(e.Look().Schema, schema), nil)
		tool := plugin.Tool{Name: e.Name, Description: e.Description, Effects: e.Effects, Serial: e.Serial, Schema: schema}
		runtest.WantError(t, "add", set.Add(tool, func(ctx context.Context, c plugin.Call, args json.RawMessage) (plugin.Result, error) {
			c.Host = nil
			a, err := request(ctx, question{Tool: e.Name, Call: &c, Args: args})
			if err == nil && a.Failed != "" {
				err = errors.New(a.Failed)
			}
			return a.Result, err
		}), nil)
	}
	return set
}

// setupListening is [harness.StartIdle] with a server that other processes can connect to.
func setupListening(t *testing.T, script ...harness.Step) *harness.System {
	t.Helper()
	return harness.StartOn(t, busembed.Config{Listen: true}, script...)
}

// process starts a node in a process of its own, with plugins of that name, or none. The model and the tools of
// the system run in this process; report may be nil. kill sends SIGKILL, and returns when the process has ended
// and the contexts of its requests are cancelled.
func process(b *harness.System, plugins string, report reporter) (kill func()) {
	b.T.Helper()
	cfg := nodeProcess{URL: b.Server.URL(), Subject: "test." + nats.NewInbox(), Tools: b.Tools.Entries(), Plugins: plugins}
	ctx, cancel := context.WithCancel(b.Ctx)
	var calls sync.WaitGroup
	sub, err := b.Bus.Conn().Subscribe(cfg.Subject, func(m *nats.Msg) {
		calls.Go(func() {
			data, err := json.Marshal(respond(ctx, b, m.Data, report))
			runtest.WantError(b.T, "answer", errors.Join(err, m.Respond(data)), nil)
		})
	})
	runtest.WantError(b.T, "subscribe", err, nil)
	runtest.WantError(b.T, "flush", b.Bus.Conn().Flush(), nil)
	config, err := json.Marshal(cfg)
	runtest.WantError(b.T, "encode", err, nil)
	child := runtest.Child(ctx, "TestChildNode", nodeVariable+"="+string(config))
	var out strings.Builder
	child.Stdout, child.Stderr = &out, &out
	alive, err := child.StdinPipe() // closed when this process ends, whatever way
	runtest.WantError(b.T, "pipe", err, nil)
	runtest.WantError(b.T, "start the process", child.Start(), nil)
	var once sync.Once
	kill = func() {
		once.Do(func() {
			runtest.WantError(b.T, "kill", child.Process.Kill(), nil)
			_ = child.Wait()
			_ = alive.Close()
			cancel()
			runtest.WantError(b.T, "unsubscribe", sub.Unsubscribe(), nil)
			calls.Wait()
			if b.T.Failed() && out.Len() > 0 {
				b.T.Logf("the process said: %s", out.String())
			}
		})
	}
	b.T.Cleanup(kill)
	return kill
}

// respond responds to a question of a process.
func respond(ctx context.Context, b *harness.System, data []byte, report reporter) (a verdictOf) {
	var q question
	runtest.WantError(b.T, "question", json.Unmarshal(data, &q), nil)
	var err error
	switch {
	case q.Model != nil:
		a.Answer, err = b.Model.Answer(ctx, *q.Model)
		if refused, ok := errors.AsType[*llm.Error](err); ok {
			a.Refused, err = refused, nil
		}
	case q.Tool != "":
		tool, ok := b.Tools.Find(q.Tool)
		if !ok {
			b.T.Errorf("the process calls %q, which is no tool", q.Tool)
			return a
		}
		a.Result, err = tool.Handler(ctx, *q.Call, q.Args)
	default:
		err = report(ctx, q.Report)
	}
	if err != nil {
		a.Failed = err.Error()
	}
	return a
}
