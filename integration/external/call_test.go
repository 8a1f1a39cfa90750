package external

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/harness"
	"github.com/lash-go/lash/session/api"
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
	on    place
	runs  string            // file of the plugin's runs
	first *external.Plugins // of the first node
	live  int               // programs that were started
}

func start(t *testing.T, script ...harness.Step) *setting {
	t.Helper()
	return oneServer(t).start(t, script...)
}

// node starts a node with the plugin on a connection of its own. kill stops it at once.
func (s *setting) node() (kill func()) {
	s.T.Helper()
	on := s.on.open(s.T)
	n, kill := s.StartNodeOn(on, s.plugins(on).Factories()...)
	s.Host = n.Host()
	return kill
}

func (s *setting) plugins(on *bus.Bus) *external.Plugins {
	s.T.Helper()
	p, err := external.New(external.Config{Bus: on, Plugins: []external.Plugin{{Name: "notes"}}})
	if err == nil {
		err = p.Start(s.Ctx)
	}
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(p.Stop)
	if s.first == nil {
		s.first = p
	}
	return p
}

// program starts the plugin in a process of its own, and returns when it is registered.
func (s *setting) program(instance string) *process {
	s.T.Helper()
	return s.run(instance, exec.CommandContext(s.Ctx, os.Args[0])) //nolint:gosec // this test binary
}

// run starts a program that is the plugin notes.
func (s *setting) run(instance string, cmd *exec.Cmd) *process {
	s.T.Helper()
	cmd.Env = append(os.Environ(), serverVariable+"="+s.on.url, prefixVariable+"="+s.on.prefix, instanceVariable+"="+instance, runsVariable+"="+s.runs, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.T.Fatal(err)
	}
	p := &process{s.T, cmd}
	s.T.Cleanup(p.kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		s.T.Fatalf("program: got %q, %v, want ready", line, err)
	}
	s.live++
	s.alive(s.live)
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

// holders are the instances that the history names.
func (s *setting) holders(id events.SessionID) (list []string) {
	for _, called := range harness.Find[*events.ToolCalled](s.System, id) {
		list = append(list, called.Holders...)
	}
	return list
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
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

func (s *setting) began() (n int) {
	data, _ := os.ReadFile(s.runs)
	return strings.Count(string(data), "began ")
}

func calling(tool, args string) []harness.Step {
	return []harness.Step{harness.Reply(harness.Call("k", tool, args)), harness.Reply(harness.Text("done"))}
}

// TestCallOfExternalTool calls tools of a plugin that is a program of its own: results, failures, panics.
func TestCallOfExternalTool(t *testing.T) {
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
			if got := s.CallResult(id, "k"); got != c.want {
				t.Errorf("result: got %q, want %q", got, c.want)
			}
			if got := s.began(); got != 1 {
				t.Errorf("runs: got %d, want 1", got)
			}
			if holders := s.holders(id); c.tool == "write" && fmt.Sprint(holders) != "[i1]" || c.tool == "look" && holders != nil {
				t.Errorf("holders of %s: got %v", c.tool, holders)
			}
		})
	}
}

// TestNodeDiesDuringExternalCall stops the node while the tool runs: the next node joins the call. A tool that must
// not run twice runs once.
func TestNodeDiesDuringExternalCall(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"write", "look"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(tool, `{"text":"milk","millis":1500}`)...)
			kill := s.node()
			s.program("i1")
			s.program("i2")
			id := s.begin()
			s.logged("began", 1)
			s.node()
			kill()
			s.AwaitTurn(id, "t1")
			if got := s.CallResult(id, "k"); got != "noted: milk" {
				t.Errorf("result: got %q, want that of the tool", got)
			}
			// A new node may not know the instance of a repeatable call yet, and ask the other one.
			if got := s.began(); got != 1 && (tool == "write" || got != 2) {
				t.Errorf("runs: got %d, want 1", got)
			}
		})
	}
}

// TestInstanceDiesDuringExternalCall kills and freezes the instance while the tool runs: a call that must not run twice
// is lost, another one runs on the other instance.
func TestInstanceDiesDuringExternalCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tool   string
		signal syscall.Signal
		want   string
		runs   int
	}{
		"killed_runs_once":  {"write", syscall.SIGKILL, "[lost]", 1},
		"frozen_runs_once":  {"write", syscall.SIGSTOP, "[lost]", 1},
		"killed_may_repeat": {"look", syscall.SIGKILL, "noted: milk", 2},
		"frozen_may_repeat": {"look", syscall.SIGSTOP, "noted: milk", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(c.tool, `{"text":"milk","millis":2000}`)...)
			s.node()
			programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
			id := s.begin()
			holder := strings.Fields(s.logged("began", 1)[0])[2]
			programs[holder].signal(c.signal)
			s.AwaitTurn(id, "t1")
			if got := s.CallResult(id, "k"); !strings.HasPrefix(got, c.want) {
				t.Errorf("result: got %q, want %q", got, c.want)
			}
			if got := s.began(); got != c.runs {
				t.Errorf("runs: got %d, want %d", got, c.runs)
			}
			if c.signal == syscall.SIGSTOP { // what it sends now has no reader
				programs[holder].signal(syscall.SIGCONT)
				s.logged("ended", c.runs)
				if got := s.CallResult(id, "k"); !strings.HasPrefix(got, c.want) {
					t.Errorf("result after the instance went on: got %q, want %q", got, c.want)
				}
			}
		})
	}
}

// TestNoInstance calls a tool whose instances are gone: it stays in the catalogue, and its call fails at once.
func TestNoInstance(t *testing.T) {
	t.Parallel()
	s := start(t, calling("write", `{"text":"milk"}`)...)
	s.node()
	p := s.program("i1")
	p.kill()
	s.alive(0)
	id := s.begin()
	s.AwaitTurn(id, "t1")
	if got := s.CallResult(id, "k"); !strings.Contains(got, "no instance of plugin notes runs") {
		t.Errorf("result: got %q, want that no instance runs", got)
	}
	if got := s.began(); got != 0 {
		t.Errorf("runs: got %d, want none", got)
	}
}

// TestCancelOfExternalCall cancels the turn while the tool runs: the tool's context ends.
func TestCancelOfExternalCall(t *testing.T) {
	t.Parallel()
	s := start(t, calling("write", `{"text":"milk","millis":60000}`)...)
	s.node()
	s.program("i1")
	id := s.begin()
	s.logged("began", 1)
	if _, _, err := s.Cancel(s.Ctx, id, "t1", api.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	s.logged("stopped", 1)
	s.AwaitTurn(id, "t1")
}

// TestRecordedOutcomeIsDropped repeats a call whose result the history has: the instance has dropped the outcome, and
// does not run the tool again.
func TestRecordedOutcomeIsDropped(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"write", "look"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(tool, `{"text":"milk"}`)...)
			s.node()
			s.program("i1")
			id := s.begin()
			s.AwaitTurn(id, "t1")
			again, err := json.Marshal(&wire.Call{CallID: wire.CallID{Session: id, Call: "t1/0/0"}, Tool: tool, Args: json.RawMessage(`{"text":"milk"}`)})
			harness.WantError(t, "call", err, nil)
			c := s.client()
			s.AwaitPolling("the outcome to be dropped", func() bool {
				m, err := c.nc.Request(c.prefix+".plugin.notes.i1.call", again, 10*time.Second)
				harness.WantError(t, "call again", err, nil)
				var answer wire.Progress
				harness.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
				if !answer.Last() {
					t.Fatalf("the call runs again: got %+v", answer)
				}
				return answer.Forgotten
			})
			if got := s.began(); got != 1 {
				t.Errorf("runs: got %d, want 1", got)
			}
		})
	}
}
