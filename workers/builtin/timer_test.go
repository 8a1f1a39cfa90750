package builtin_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/timer"
)

// alarms is a host that keeps the last time which was set.
type alarms struct {
	plugin.Absent
	ahead  time.Duration // of this machine's clock
	effect events.EffectID
	at     time.Time
	result events.ToolResult
}

func (h *alarms) Now() time.Time { return time.Now().Add(h.ahead) }

func (h *alarms) ResolveAt(_ context.Context, _ events.SessionID, effect events.EffectID, at time.Time, result events.ToolResult) error {
	h.effect, h.at, h.result = effect, at, result
	return nil
}

// TestWait parks the call until a time by the host's clock, whatever this machine's is, under the call's own effect.
func TestWait(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, timer.Factory(timer.Config{}))
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		until := time.Now().Add(ahead + time.Hour).UTC().Truncate(time.Second)
		for tool, args := range map[string]string{"wait": `{"seconds":3600}`, "wait_until": `{"time":"` + until.Format(time.RFC3339) + `"}`} {
			host := &alarms{ahead: ahead}
			got, err := builtintest.Call(t, s, plugin.Call{Host: host, Effect: "t1/0/0"}, tool, args)
			if err != nil || !got.Pending || got.Text != "" {
				t.Errorf("%s, %v ahead: got %+v, %v, want it pending", tool, ahead, got, err)
			}
			if off := host.at.Sub(until); host.effect != "t1/0/0" || off < 0 || off > 5*time.Minute {
				t.Errorf("%s, %v ahead: got %s set for %s, want t1/0/0 for %s", tool, ahead, host.effect, host.at, until)
			}
			if want := "It is " + host.at.UTC().Format(time.RFC3339) + "."; host.result.Text != want {
				t.Errorf("%s: got the result %q, want %q", tool, host.result.Text, want)
			}
		}
	}
}

// TestOver ends a wait whose time has passed at once, without a host.
func TestOver(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, timer.Factory(timer.Config{}))
	got, err := builtintest.Call(t, s, plugin.Call{}, "wait_until", `{"time":"2001-02-03T04:05:06+01:00"}`)
	if err != nil || got.Pending || got.Text != "It is 2001-02-03T03:05:06Z." {
		t.Errorf("got %+v, %v, want the time in UTC", got, err)
	}
	if got, err := builtintest.Call(t, s, plugin.Call{}, "wait", `{"seconds":0}`); err != nil || got.Pending || !strings.HasPrefix(got.Text, "It is ") {
		t.Errorf("no seconds: got %+v, %v, want it over", got, err)
	}
}

// TestTimerRefused: arguments that no wait has.
func TestTimerRefused(t *testing.T) {
	t.Parallel()
	s := builtintest.Build(t, plugin.BuildContext{}, timer.Factory(timer.Config{Max: time.Minute}))
	for _, c := range []struct{ tool, args, class, want string }{
		{"wait", `{"seconds":-1}`, plugin.ClassInvalidRequest, "seconds is -1, want 0 to 60"},
		{"wait", `{"seconds":60.5}`, plugin.ClassInvalidRequest, "seconds is 60.5, want 0 to 60"},
		{"wait", `{"seconds":1e300}`, plugin.ClassInvalidRequest, "want 0 to 60"},
		{"wait_until", `{"time":"tomorrow"}`, plugin.ClassInvalidRequest, `time is "tomorrow"`},
		{"wait_until", `{"time":"2026-13-01T00:00:00Z"}`, plugin.ClassInvalidRequest, "time is"},
		{"wait_until", `{"time":"9999-01-01T00:00:00Z"}`, plugin.ClassInvalidRequest, "ahead, limit is 1m0s"},
		{"wait", `{"seconds":30}`, plugin.ClassUnavailable, "there are no timers here"}, // without a host
	} {
		_, err := builtintest.Call(t, s, plugin.Call{}, c.tool, c.args)
		builtintest.Refused(t, c.tool+" "+c.args, err, c.class, c.want)
	}
}
