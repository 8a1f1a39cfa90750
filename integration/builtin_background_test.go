package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
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
	b.node(background.Factory())
	id := b.open(session.CreateRequest{})
	b.run(id, "t1", text("watch"))
	s := b.await(id, "a line", func(s *projector.State) bool { return len(s.Monitors) == 1 && s.Monitors[0].Events == 1 })
	if spec := s.Monitors[0].Spec; !spec.RestartOnRestore || !spec.Persistent || spec.Wake != events.WakeNotify {
		t.Errorf("specification: got %+v, want one that persists and only notifies", spec)
	}
	b.run(id, "t2", text("stop"))
	for call, want := range map[string]string{"c2": "[failed] timeout_ms must be", "c3": "[failed] ", "c6": "cancelled"} {
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
