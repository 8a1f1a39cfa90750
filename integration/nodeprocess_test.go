package integration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// nodeVariable tells a process that it is a node, see [bundle.process].
const nodeVariable = "LASH_NODE_PROCESS"

// nodeProcess is what such a process is told.
type nodeProcess struct {
	URL, Subject string
	Tools        []events.ToolEntry
	Plugins      string // of [processPlugins]
}

// processPlugins are plugins that need the host of the node's own process. What they
// report goes to the test, which answers when they may go on.
var processPlugins = map[string]func(report reporter) []plugin.Factory{
	"delegates": func(reporter) []plugin.Factory { return []plugin.Factory{delegates()} },
	"titles":    func(report reporter) []plugin.Factory { return []plugin.Factory{titles(report)} },
	"replacing": replacing,
}

// reporter tells the test what happens. The error is what ended ctx.
type reporter func(ctx context.Context, what string) error

// question is what the process asks the test, and verdictOf the answer.
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

// TestNodeOfTest is a node in a process of its own, until it is killed. Its model and its tools are those of the test.
func TestNodeOfTest(t *testing.T) {
	told := os.Getenv(nodeVariable)
	if told == "" {
		t.Skip("runs in a process of its own")
	}
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0) // the test has gone
	}()
	var cfg nodeProcess
	must(t, "configuration", json.Unmarshal([]byte(told), &cfg), nil)
	on, err := bus.Open(t.Context(), bus.Config{URL: cfg.URL})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(ctx context.Context, q question) (verdictOf, error) {
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
			_, err := ask(ctx, question{Report: what})
			return err
		})
	}
	factories = append(factories, plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return askingTools(t, cfg.Tools, ask) }))
	plugins, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	must(t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Plugins: plugins, Provider: "scripted", ModelRetry: workers.ModelRetry{Base: time.Millisecond, Max: 2 * time.Millisecond},
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			a, err := ask(ctx, question{Model: &req})
			if err == nil && a.Refused != nil {
				err = a.Refused
			}
			return a.Answer, err
		})},
	})
	must(t, "node", err, nil)
	must(t, "start", n.Start(t.Context()), nil)
	<-t.Context().Done() // it never ends by itself
}

// askingTools are tools that the test runs.
func askingTools(t *testing.T, entries []events.ToolEntry, ask func(context.Context, question) (verdictOf, error)) *plugin.Tools {
	set := plugin.NewTools()
	for _, e := range entries {
		schema := new(jsonschema.Schema)
		must(t, "schema", json.Unmarshal(e.Schema, schema), nil)
		tool := plugin.Tool{Name: e.Name, Description: e.Description, Effects: e.Effects, Serial: e.Serial, Schema: schema}
		must(t, "add", set.Add(tool, func(ctx context.Context, c plugin.Call, args json.RawMessage) (plugin.Result, error) {
			c.Host = nil
			a, err := ask(ctx, question{Tool: e.Name, Call: &c, Args: args})
			if err == nil && a.Failed != "" {
				err = errors.New(a.Failed)
			}
			return a.Result, err
		}), nil)
	}
	return set
}

// setupListening is setupIdle with a server that other processes reach.
func setupListening(t *testing.T, script ...step) *bundle {
	t.Helper()
	return setupOn(t, busembed.Config{Listen: true}, script...)
}

// process starts a node in a process of its own, with plugins of that name, or none. The bundle's model and tools
// answer it in this one; report may be nil. kill is kill -9, and returns when the process is gone: the contexts
// of what it asked for have ended then.
func (b *bundle) process(plugins string, report reporter) (kill func()) {
	b.t.Helper()
	cfg := nodeProcess{URL: b.server.URL(), Subject: "test." + nats.NewInbox(), Tools: b.tools.Entries(), Plugins: plugins}
	ctx, cancel := context.WithCancel(b.ctx)
	var asked sync.WaitGroup
	sub, err := b.bus.Conn().Subscribe(cfg.Subject, func(m *nats.Msg) {
		asked.Go(func() {
			data, err := json.Marshal(b.answers(ctx, m.Data, report))
			must(b.t, "answer", errors.Join(err, m.Respond(data)), nil)
		})
	})
	must(b.t, "subscribe", err, nil)
	must(b.t, "flush", b.bus.Conn().Flush(), nil)
	told, err := json.Marshal(cfg)
	must(b.t, "encode", err, nil)
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestNodeOfTest$")
	child.Env = append(os.Environ(), nodeVariable+"="+string(told))
	var out strings.Builder
	child.Stdout, child.Stderr = &out, &out
	alive, err := child.StdinPipe() // closed when this process ends, whatever way
	must(b.t, "pipe", err, nil)
	must(b.t, "start the process", child.Start(), nil)
	var once sync.Once
	kill = func() {
		once.Do(func() {
			must(b.t, "kill", child.Process.Kill(), nil)
			_ = child.Wait()
			_ = alive.Close()
			cancel()
			must(b.t, "unsubscribe", sub.Unsubscribe(), nil)
			asked.Wait()
			if b.t.Failed() && out.Len() > 0 {
				b.t.Logf("the process said: %s", out.String())
			}
		})
	}
	b.t.Cleanup(kill)
	return kill
}

// answers is what the test says to a question of a process.
func (b *bundle) answers(ctx context.Context, data []byte, report reporter) (a verdictOf) {
	var q question
	must(b.t, "question", json.Unmarshal(data, &q), nil)
	var err error
	switch {
	case q.Model != nil:
		a.Answer, err = b.model.answer(ctx, *q.Model)
		if refused, ok := errors.AsType[*llm.Error](err); ok {
			a.Refused, err = refused, nil
		}
	case q.Tool != "":
		tool, ok := b.tools.Find(q.Tool)
		if !ok {
			b.t.Errorf("the process calls %q, which is no tool", q.Tool)
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
