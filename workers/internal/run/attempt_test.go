package run

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
)

// process is one process of a worker. It runs the session with a wake of the queue, and reports whether it died: a plugin
// called [runtime.Goexit], and nothing of the run was finished.
func (b *bundle) process(name string, factory plugin.Factory) (died bool) {
	b.T.Helper()
	p := b.pool(events.WorkerID(name), 1, says("hi"), nil, factory)
	p.trials.Alone = time.Minute // a death on a slow machine is alone, too
	b.T.Cleanup(func() { p.cfg.Bus.Close() })
	r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
	p.runs[sid] = r
	finished, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		err := r.work(b.T.Context())
		p.finish(b.T.Context(), r, p.unregister(r), err)
		finished = true
	}()
	<-ended
	return !finished
}

// TestKillsBeforeItsStart has a turn, or the turn of a monitor's input, whose plugins kill each worker before turn.started,
// while others append to its session before each attempt. It is given up in the history, and the turn behind it runs.
func TestKillsBeforeItsStart(t *testing.T) {
	t.Parallel()
	const limit = 3 // of the pool
	for name, start := range map[string]func(*bundle) (events.TurnID, func(n int)){
		"turn": func(b *bundle) (events.TurnID, func(int)) {
			b.submit("t1")
			return "t1", func(n int) { b.submit(events.TurnID(fmt.Sprint("more", n))) }
		},
		"monitor": func(b *bundle) (events.TurnID, func(int)) {
			line := func(n int) {
				in := events.InputID(fmt.Sprint("line", n))
				report := &events.MonitorReported{Monitor: "m1", Lines: []events.MonitorLine{{Sequence: int64(n), Text: "a line", Wake: in}}}
				if n > 1 {
					report.Lines[0].Wake = ""
				}
				list := []events.Payload{report}
				if n == 1 {
					list = append([]events.Payload{&events.InputInjected{Input: in, Role: events.RoleUser, Parts: api.Ask("a line").Input.Parts}}, list...)
				}
				b.Append("", list...)
				b.publish()
			}
			b.Append("", &events.MonitorRegistered{Spec: events.MonitorSpec{ID: "m1", Command: "tail", Wake: events.WakeQueueTurn}})
			line(1)
			return "wake-line1", func(n int) { line(n + 2) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id, more := start(b)
			kills := plugin.OfTools("kills", func(events.SessionID) *plugin.Tools {
				if r, err := b.State().Record(id); err != nil || r == nil {
					runtime.Goexit()
				}
				return plugin.NewTools()
			})
			deaths := 0
			for n := 0; ; n++ {
				if record, err := b.State().Record(id); err == nil && record != nil {
					if record.End != events.EndFailed || record.Issue.Code != wake.CodePoisoned || deaths != limit {
						t.Errorf("after %d deaths: got %+v, want it given up after %d", deaths, record, limit)
					}
					return
				}
				if deaths > 4*limit {
					t.Fatalf("the turn killed %d workers, with a limit of %d", deaths, limit)
				}
				more(n)
				if b.process(fmt.Sprint("w", n), kills) {
					deaths++
				}
			}
		})
	}
}
