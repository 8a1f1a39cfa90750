package system

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/builtin/background"
)

// TestBackgroundTools starts, lists and stops monitors and tasks with tools.
func TestBackgroundTools(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(
			harness.Call("c1", "monitor_start", `{"id":"tick","command":"echo tick; exec sleep 1000","persistent":true,"notify_only":true}`),
			harness.Call("c2", "monitor_start", `{"id":"long","command":"true","timeout_ms":3600001}`),
			harness.Call("c3", "monitor_stop", `{"id":"none"}`),
		), harness.Reply(harness.Text("started")),
		harness.Reply(harness.Call("c4", "monitors_list", `{}`), harness.Call("c5", "tasks_list", `{}`)),
		harness.Reply(harness.Call("c6", "tasks_stop", `{"id":"monitor-tick"}`)), harness.Reply(harness.Call("c7", "monitors_list", `{}`)), harness.Reply(harness.Text("stopped")),
	)
	b.StartNode(background.Factory(background.Config{}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("watch"))
	s := b.AwaitState(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	if spec := s.Monitors[0].Spec; !spec.RestartOnRestore || !spec.Persistent || spec.Wake != events.WakeNotify {
		t.Errorf("specification: got %+v, want one that persists and only notifies", spec)
	}
	b.RunTurn(id, "t2", harness.Text("stop"))
	for call, want := range map[string]string{"c2": "[failed] timeout_ms: 3600001, want 0 to 3600000", "c3": "[failed] ", "c6": "cancelled"} {
		if got := b.CallResult(id, call); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
	for call, want := range map[string]events.MonitorState{"c4": events.MonitorRunning, "c7": events.MonitorStopped} {
		var list []struct {
			State    events.MonitorState `json:"state"`
			LastLine string              `json:"last_line"`
		}
		if err := json.Unmarshal([]byte(b.CallResult(id, call)), &list); err != nil || len(list) != 1 || list[0].State != want || list[0].LastLine != "tick" {
			t.Errorf("%s: got %+v, %v, want one that is %s", call, list, err, want)
		}
	}
	runtest.Equal(t, "tasks", b.CallResult(id, "c5"), `[{"id":"monitor-tick","kind":"monitor","state":"running"}]`)
}

// TestBackgroundTask has a task that outlives its turn and starts another turn with its result, and stops a task
// with its processes.
func TestBackgroundTask(t *testing.T) {
	t.Parallel()
	ready, fifo := harness.NewFifo(t), harness.NewFifo(t)
	up, ended := fifo.Opened(t)
	start := func(id, command string) string {
		args, err := json.Marshal(map[string]string{"id": id, "command": command})
		runtest.WantError(t, "arguments", err, nil)
		return string(args)
	}
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "task_start", start("build", "read x < '"+string(ready)+"'; echo built $x; echo badly >&2; exit 3"))),
		harness.Reply(
			harness.Call("c2", "task_start", start("serve", harness.KeepOpen(fifo, ""))),
			harness.Call("c3", "task_start", start("blank", " ")),
			harness.Call("c4", "task_start", start("a b", "true")),
		), harness.Reply(harness.Text("started")),
		harness.Reply(harness.Call("c5", "tasks_list", `{}`)), harness.Reply(harness.Call("c6", "tasks_stop", `{"id":"serve"}`), harness.Call("c7", "task_start", start("build", "true"))), harness.Reply(harness.Text("stopped")),
		harness.Reply(harness.Text("noted")),
	)
	b.StartNode(background.Factory(background.Config{}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("build"))
	b.Wait("task that serves", up)
	b.RunTurn(id, "t2", harness.Text("stop one"))
	b.Wait("processes of the stopped task", ended)
	b.AwaitTask(id, "serve", events.TaskCancelled)
	ready.Write(t, "it")
	runtest.Equal(t, "summary", b.AwaitTask(id, "build", events.TaskFailed).Summary, "exit status 3")
	s := b.AwaitState(id, "the turn of the report", func(s *projector.State) bool { return s.Turns == 3 && s.Idle() })
	runtest.Equal(t, "end", s.Status, projector.StatusOpen)
	lines := b.Messages(id)
	report := strings.Join(lines[len(lines)-2:], "\n")
	if !strings.HasPrefix(report, "user Background task build has ended after ") || !strings.Contains(report, ": exit status 3\n") ||
		!strings.Contains(report, "built it") || !strings.Contains(report, "badly") || !strings.HasSuffix(report, "\nassistant noted") {
		t.Errorf("report: got %q, want the exit status and both outputs, answered", report)
	}
	for call, want := range map[string]string{
		"c1": "It runs.", "c3": "[failed] command: is blank", "c4": "[failed] ", "c6": "cancel", "c7": "[failed] ",
		"c5": `[{"id":"build","kind":"tool","state":"running"},{"id":"serve","kind":"tool","state":"running"}]`,
	} {
		if got := b.CallResult(id, call); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
}

// TestMonitorLineStartsTurn has a monitor's line start a turn.
func TestMonitorLineStartsTurn(t *testing.T) {
	t.Parallel()
	ready := harness.NewFifo(t)
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "monitor_start", `{"id":"log","command":"read x < '`+string(ready)+`'; echo $x; exec sleep 1000"}`)), harness.Reply(harness.Text("watching")),
		harness.Reply(harness.Text("seen")),
	)
	b.StartNode(background.Factory(background.Config{}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("watch"))
	ready.Write(t, "fire")
	b.AwaitTurn(id, "wake-monitor-log-1")
	lines := b.Messages(id)
	runtest.EqualLists(t, "messages", lines[len(lines)-2:], []string{`user Monitor event "log": fire`, "assistant seen"})
}

// TestBackgroundKilled kills the node of a task: its processes end, it does not run again, and the model receives
// one notice.
func TestBackgroundKilled(t *testing.T) {
	t.Parallel()
	fifo := harness.NewFifo(t)
	up, ended := fifo.Opened(t)
	command, err := json.Marshal(map[string]string{"id": "serve", "command": harness.KeepOpen(fifo, "")})
	runtest.WantError(t, "arguments", err, nil)
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "task_start", string(command))), harness.Reply(harness.Text("started")), harness.Reply(harness.Text("pity")), harness.Reply(harness.Text("yes")))
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), background.Factory(background.Config{}))
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("serve"))
	b.Wait("task that serves", up)
	kill()
	b.Wait("processes of the killed node", ended)
	b.StartNode(background.Factory(background.Config{}))
	if got := b.AwaitTask(id, "serve", events.TaskFailed).Summary; !strings.HasPrefix(got, "abandoned: worker ") {
		t.Errorf("summary: got %q, want the evidence", got)
	}
	b.RunTurn(id, "t2", harness.Text("does it serve?"))
	b.RunTurn(id, "t3", harness.Text("sure?"))
	notifications := 0
	for _, line := range b.Messages(id) {
		if strings.HasPrefix(line, "system These background tasks died") && strings.HasSuffix(line, ": serve") {
			notifications++
		}
	}
	runtest.Equal(t, "notes", notifications, 1)
}
