package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/builtin/background"
)

// TestBackground starts, lists and stops monitors and tasks by tools.
func TestBackground(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(
			call("c1", "monitor_start", `{"id":"tick","command":"echo tick; exec sleep 1000","persistent":true,"notify_only":true}`),
			call("c2", "monitor_start", `{"id":"long","command":"true","timeout_ms":3600001}`),
			call("c3", "monitor_stop", `{"id":"none"}`),
		), reply(text("started")),
		reply(call("c4", "monitors_list", `{}`), call("c5", "tasks_list", `{}`)),
		reply(call("c6", "tasks_stop", `{"id":"monitor-tick"}`)), reply(call("c7", "monitors_list", `{}`)), reply(text("stopped")),
	)
	b.node(background.Factory(background.Config{}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("watch"))
	s := b.await(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	if spec := s.Monitors[0].Spec; !spec.RestartOnRestore || !spec.Persistent || spec.Wake != events.WakeNotify {
		t.Errorf("specification: got %+v, want one that persists and only notifies", spec)
	}
	b.run(id, "t2", text("stop"))
	for call, want := range map[string]string{"c2": "[failed] timeout_ms: 3600001, want 0 to 3600000", "c3": "[failed] ", "c6": "cancelled"} {
		if got := b.result(id, call); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
	for call, want := range map[string]events.MonitorState{"c4": events.MonitorRunning, "c7": events.MonitorStopped} {
		var list []background.Monitor
		if err := json.Unmarshal([]byte(b.result(id, call)), &list); err != nil || len(list) != 1 || list[0].State != want || list[0].LastLine != "tick" {
			t.Errorf("%s: got %+v, %v, want one that is %s", call, list, err, want)
		}
	}
	equal(t, "tasks", b.result(id, "c5"), `[{"id":"monitor-tick","kind":"monitor","state":"running"}]`)
}

// TestBackgroundTask has a task outlive its turn and begin another with what it came to, and stops one with its processes.
func TestBackgroundTask(t *testing.T) {
	t.Parallel()
	ready, kept := newFifo(t), newFifo(t)
	up, gone := kept.held(t)
	start := func(id, command string) string {
		args, err := json.Marshal(map[string]string{"id": id, "command": command})
		must(t, "arguments", err, nil)
		return string(args)
	}
	b := setupIdle(t,
		reply(call("c1", "task_start", start("build", "read x < '"+string(ready)+"'; echo built $x; echo badly >&2; exit 3"))),
		reply(
			call("c2", "task_start", start("serve", keeps(kept, ""))),
			call("c3", "task_start", start("blank", " ")),
			call("c4", "task_start", start("a b", "true")),
		), reply(text("started")),
		reply(call("c5", "tasks_list", `{}`)), reply(call("c6", "tasks_stop", `{"id":"serve"}`), call("c7", "task_start", start("build", "true"))), reply(text("stopped")),
		reply(text("noted")),
	)
	b.node(background.Factory(background.Config{}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("build"))
	b.wait("task that serves", up)
	b.run(id, "t2", text("stop one"))
	b.wait("processes of the stopped task", gone)
	b.taskIs(id, "serve", events.TaskCancelled)
	ready.say(t, "it")
	equal(t, "summary", b.taskIs(id, "build", events.TaskFailed).Summary, "exit status 3")
	s := b.await(id, "the turn of the report", func(s *projector.State) bool { return s.Turns == 3 && s.Idle() })
	equal(t, "end", s.Status, projector.StatusOpen)
	lines := b.messages(id)
	report := strings.Join(lines[len(lines)-2:], "\n")
	if !strings.HasPrefix(report, "user Background task build has ended after ") || !strings.Contains(report, ": exit status 3\n") ||
		!strings.Contains(report, "built it") || !strings.Contains(report, "badly") || !strings.HasSuffix(report, "\nassistant noted") {
		t.Errorf("report: got %q, want the exit status and both outputs, answered", report)
	}
	for call, want := range map[string]string{
		"c1": "It runs.", "c3": "[failed] command: is blank", "c4": "[failed] ", "c6": "cancel", "c7": "[failed] ",
		"c5": `[{"id":"build","kind":"tool","state":"running"},{"id":"serve","kind":"tool","state":"running"}]`,
	} {
		if got := b.result(id, call); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", call, got, want)
		}
	}
}

// TestBackgroundWake has a monitor's line begin a turn.
func TestBackgroundWake(t *testing.T) {
	t.Parallel()
	ready := newFifo(t)
	b := setupIdle(t,
		reply(call("c1", "monitor_start", `{"id":"log","command":"read x < '`+string(ready)+`'; echo $x; exec sleep 1000"}`)), reply(text("watching")),
		reply(text("seen")),
	)
	b.node(background.Factory(background.Config{}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("watch"))
	ready.say(t, "fire")
	b.ended(id, "wake-monitor-log-1")
	lines := b.messages(id)
	equalLists(t, "messages", lines[len(lines)-2:], []string{`user Monitor event "log": fire`, "assistant seen"})
}

// TestBackgroundKilled kills the node of a task: its processes go, it does not run again, and the model is told once.
func TestBackgroundKilled(t *testing.T) {
	t.Parallel()
	kept := newFifo(t)
	up, gone := kept.held(t)
	command, err := json.Marshal(map[string]string{"id": "serve", "command": keeps(kept, "")})
	must(t, "arguments", err, nil)
	b := setupIdle(t, reply(call("c1", "task_start", string(command))), reply(text("started")), reply(text("pity")), reply(text("yes")))
	n, kill := b.nodeOn(bustest.Open(t, b.server), background.Factory(background.Config{}))
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("serve"))
	b.wait("task that serves", up)
	kill()
	b.wait("processes of the killed node", gone)
	b.node(background.Factory(background.Config{}))
	if got := b.taskIs(id, "serve", events.TaskFailed).Summary; !strings.HasPrefix(got, "abandoned: worker ") {
		t.Errorf("summary: got %q, want the evidence", got)
	}
	b.run(id, "t2", text("does it serve?"))
	b.run(id, "t3", text("sure?"))
	note := 0
	for _, line := range b.messages(id) {
		if strings.HasPrefix(line, "system These background tasks died") && strings.HasSuffix(line, ": serve") {
			note++
		}
	}
	equal(t, "notes", note, 1)
}
