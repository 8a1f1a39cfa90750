package external

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// process is a running plugin.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
}

// setting is a system with nodes that have the plugin notes.
type setting struct {
	*harness.System
	on place

	changesOthers bool                                // of the plugins of nodeOf
	after         []plugin.Factory                    // of nodeOf: plugins of the node after the external ones
	runs          string                              // file of the plugin's runs
	first         *external.Plugins                   // of the first node
	live          int                                 // programs that were started
	wrap          func(plugin.Factory) plugin.Factory // changes the plugin of nodes that start later; nil: nothing
	own           []plugin.Factory                    // more plugins of nodes that start later

	env    []string        // of programs that start later
	config external.Config // of nodes; the bus is that of the node
	mu     sync.Mutex
	access []accesslog.Record // of callbacks
}

func start(t *testing.T, script ...harness.Step) *setting {
	t.Helper()
	return oneServer(t).start(t, script...)
}

// node starts a node with the plugin on a connection of its own. kill stops it at once.
func (s *setting) node() (kill func()) {
	s.T.Helper()
	return s.nodeOn(s.on.open(s.T))
}

// nodeOn is node on a connection.
func (s *setting) nodeOn(on *bus.Bus) (kill func()) {
	s.T.Helper()
	p := s.plugins(on)
	factories := p.Factories()
	if s.wrap != nil {
		factories[0] = s.wrap(factories[0])
	}
	n, kill := s.StartNodeOn(on, append(factories, s.own...)...)
	runtest.WantError(s.T, "callbacks", p.ServeAPI(external.APIConfig{Service: n.Host(), Access: s.record}), nil)
	s.Host = n.Host()
	return kill
}

func (s *setting) record(r accesslog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.access = append(s.access, r)
}

func (s *setting) plugins(on *bus.Bus) *external.Plugins {
	s.T.Helper()
	cfg := s.config
	if cfg.Bus = on; cfg.Plugins == nil {
		cfg.Plugins = []external.Plugin{{Name: "notes"}}
	}
	p, err := external.New(cfg)
	if err == nil {
		err = p.Start(s.Ctx)
	}
	runtest.NoError(s.T, err)
	s.T.Cleanup(p.Stop)
	if s.first == nil {
		s.first = p
	}
	return p
}

// program starts the plugin in a process of its own, and returns when it is registered.
func (s *setting) program(instance string) *process {
	s.T.Helper()
	return s.run(instance, s.command())
}

// command is the program of the plugin in this place.
func (s *setting) command() *exec.Cmd {
	if s.on.program != nil {
		return s.on.program(s.Ctx)
	}
	return own(s.Ctx)
}

// own is the plugin in this test binary.
func own(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // this test binary
}

// run starts a program that is the plugin notes, and waits until a node knows it. All programs before it live.
func (s *setting) run(instance string, cmd *exec.Cmd) *process {
	s.T.Helper()
	p := s.spawn(instance, cmd)
	s.live++
	s.alive(s.live)
	return p
}

// spawn starts a program that is the plugin notes, and returns when it prints that it is ready.
func (s *setting) spawn(instance string, cmd *exec.Cmd) *process {
	s.T.Helper()
	out, err := cmd.StdoutPipe()
	runtest.WantError(s.T, "output", err, nil)
	p := s.launch(instance, cmd)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		s.T.Fatalf("program: got %q, %v, want ready", line, err)
	}
	return p
}

// launch starts a program that is the plugin notes.
func (s *setting) launch(instance string, cmd *exec.Cmd) *process {
	s.T.Helper()
	cmd.Env = append(os.Environ(), serverVariable+"="+s.on.url, prefixVariable+"="+s.on.prefix, instanceVariable+"="+instance, runsVariable+"="+s.runs, "GORACE=atexit_sleep_ms=0",
		"LASH_PLUGIN=notes", "LASH_PLUGIN_NATS="+s.on.url, "LASH_PLUGIN_PREFIX="+s.on.prefix, "LASH_PLUGIN_INSTANCE="+instance)
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stderr = os.Stderr
	runtest.NoError(s.T, cmd.Start())
	p := &process{s.T, cmd}
	s.T.Cleanup(p.kill)
	return p
}

// alive waits until the first node knows n instances that live.
func (s *setting) alive(n int) {
	s.T.Helper()
	s.AwaitPolling(fmt.Sprintf("%d instances", n), func() bool { return len(s.first.Status()[0].Instances) == n })
}

// begin requests the turn t1 of a new session.
func (s *setting) begin() events.SessionID {
	s.T.Helper()
	id := s.Open(api.CreateRequest{})
	s.StartTurn(id, "t1", harness.Text("note it"))
	return id
}

// holders are the names of the instances that the history names.
func (s *setting) holders(id events.SessionID) (list []string) {
	for _, called := range harness.Find[*events.ToolCalled](s.System, id) {
		for _, holder := range called.Holders {
			list = append(list, nameOf(holder))
		}
	}
	return list
}

// nameOf is the name that a program was given: its id without the random part.
func nameOf(id string) string {
	return id[:max(strings.LastIndexByte(id, '-'), 0)]
}

// idOf is the id of the instance of notes that has a name.
func (s *setting) idOf(name string) (id string) {
	s.T.Helper()
	s.AwaitPolling("the instance "+name, func() bool {
		for _, i := range s.first.Status()[0].Instances {
			if nameOf(i.ID) == name {
				id = i.ID
			}
		}
		return id != ""
	})
	return id
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	runtest.NoError(p.t, p.cmd.Process.Signal(s))
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
}

// logged waits until the plugin's file has n lines of a kind, and returns all lines.
func (s *setting) logged(what string, n int) (lines []string) {
	s.T.Helper()
	s.AwaitPolling(fmt.Sprintf("%d runs that %s", n, what), func() bool {
		data, _ := os.ReadFile(s.runs) // not there before the first run
		lines = strings.Split(strings.TrimSpace(string(data)), "\n")
		found := 0
		for _, line := range lines {
			if strings.HasPrefix(line, what+" ") {
				found++
			}
		}
		return found >= n
	})
	return lines
}

// release ends the calls that are held.
func (s *setting) release() {
	s.T.Helper()
	runtest.WantError(s.T, "release", os.WriteFile(s.runs+released, nil, 0o600), nil)
}

// hold makes the calls wait that are held from now on.
func (s *setting) hold() {
	s.T.Helper()
	runtest.WantError(s.T, "hold", os.Remove(s.runs+released), nil)
}

// sentCalls are the messages with calls that nodes send to instances of notes from now on.
func (s *setting) sentCalls() *nats.Subscription {
	s.T.Helper()
	c := s.client()
	sent, err := c.nc.SubscribeSync(c.prefix + ".plugin.notes.*.call")
	runtest.WantError(s.T, "subscribe", err, nil)
	runtest.WantError(s.T, "subscribe", c.nc.Flush(), nil)
	return sent
}

// sent waits for the next of [setting.sentCalls].
func (s *setting) sent(calls *nats.Subscription) (in wire.Call) {
	s.T.Helper()
	m, err := calls.NextMsgWithContext(s.Ctx)
	if err != nil {
		s.T.Fatalf("call: %v", err)
	}
	runtest.WantError(s.T, "call", json.Unmarshal(m.Data, &in), nil)
	return in
}

// draining waits until the first node knows that an instance drains.
func (s *setting) draining(name string) {
	s.T.Helper()
	s.AwaitPolling("the drain of "+name, func() bool {
		return slices.ContainsFunc(s.first.Status()[0].Instances, func(i api.PluginInstance) bool { return nameOf(i.ID) == name && i.Draining })
	})
}

func (s *setting) began() (n int) {
	data, _ := os.ReadFile(s.runs)
	return strings.Count(string(data), "began ")
}

func calling(tool, args string) []harness.Step {
	return []harness.Step{harness.Reply(harness.Call("k", tool, args)), harness.Reply(harness.Text("done"))}
}

// TestSmokeCallOfExternalTool calls tools of a plugin that is a program of its own: results, failures, panics.
func TestSmokeCallOfExternalTool(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ tool, args, want string }{
		"result_of_a_tool_that_runs_once":  {"write", `{"text":"milk"}`, "noted: milk"},
		"result_of_a_tool_that_may_repeat": {"look", `{"text":"milk"}`, "noted: milk"},
		"failure":                          {"write", `{"text":"","fail":"error"}`, "[failed] the shop is closed"},
		"panic":                            {"look", `{"text":"","fail":"panic"}`, "[failed] tool panicked: as requested"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(c.tool, c.args)...)
			s.node()
			s.program("i1")
			id := s.begin()
			s.AwaitTurn(id, "t1")
			runtest.Equal(t, "result", s.CallResult(id, "k"), c.want)
			runtest.Equal(t, "runs", s.began(), 1)
			if holders := s.holders(id); c.tool == "write" && fmt.Sprint(holders) != "[i1]" || c.tool == "look" && holders != nil {
				t.Errorf("holders of %s: got %v", c.tool, holders)
			}
		})
	}
}
