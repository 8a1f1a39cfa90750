package workers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// delivered gives the newest delivery of the job that waits in a class.
func delivered(t *testing.T, b *bus.Bus, class bus.Class) *bus.Job {
	t.Helper()
	queue, err := b.Work(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	var got *bus.Job
	if err := queue.Fetch(t.Context(), 1, 5*time.Second, func(j *bus.Job) { got = j }); err != nil || got == nil {
		t.Fatalf("fetch: %v, %v", got, err)
	}
	return got
}

// TestTriesBegun has an attempt taken back that was counted for this delivery, once, and no other.
func TestTriesBegun(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	config := JobRetry{}
	if err := config.defaults(); err != nil {
		t.Fatal(err)
	}
	tr := &tries{bus: b, cfg: config, log: zap.NewNop()}
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s", "t", nil); err != nil {
		t.Fatal(err)
	}
	known := func(j *bus.Job) int64 {
		again := *j
		again.Tries = bus.Tries{}
		if err := again.LoadTries(t.Context()); err != nil {
			t.Fatal(err)
		}
		return again.Tries.Count
	}
	for _, step := range []struct {
		what    string
		excuses int
		want    int64
	}{{"first delivery", 1, 0}, {"killed", 0, 1}, {"stopped", 1, 1}, {"stopped, twice said", 2, 1}, {"killed again", 0, 2}} {
		j := delivered(t, b, bus.ClassTurn)
		if err := tr.begin(t.Context(), j); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		for range step.excuses {
			tr.excuse(t.Context(), j)
		}
		if got := known(j); got != step.want {
			t.Errorf("%s: got %d attempts, want %d", step.what, got, step.want)
		}
		if err := j.HandBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	j := delivered(t, b, bus.ClassTurn)
	if err := tr.load(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if tr.excuse(t.Context(), j); known(j) != 2 {
		t.Errorf("looked at only: got %d attempts, want 2", known(j))
	}
}

// TestFullNodeTriesNothing has a task that ran before reach a node without
// room: that is no attempt, however often it happens.
func TestFullNodeTriesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	n, err := NewNode(Config{Bus: b, HeldTasks: 1, Runners: map[string]TaskFunc{"r": func(context.Context, *RunningTask) (string, error) { return "", nil }}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := n.Host().Create(t.Context(), session.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := n.Host().RegisterTask(t.Context(), id, session.TaskRequest{ID: "task", Runner: "r", Restart: events.RestartAlways})
	if err != nil {
		t.Fatal(err)
	}
	rec.Attempt = 1
	tasks := n.Tasks()
	tasks.runs[taskKey{"other", "task"}] = &taskRun{class: bus.ClassTask}
	j := delivered(t, b, bus.ClassTask)
	j.Deliveries = 2
	if v, err := tasks.begin(t.Context(), j, &rec); v != jobLater || err != nil || j.Tries.Count != 0 {
		t.Errorf("no room: got %v, %v and %d attempts, want it left to others, and none", v, err, j.Tries.Count)
	}
	delete(tasks.runs, taskKey{"other", "task"})
	rec.Seq++ // somebody else has it
	if _, err := tasks.begin(t.Context(), j, &rec); !errors.Is(err, session.ErrTaskTaken) || j.Tries.Count != 1 {
		t.Errorf("taken: got %v and %d attempts, want %v and one", err, j.Tries.Count, session.ErrTaskTaken)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	tasks.handle(over, j) // what it began is given back
	j.Tries = bus.Tries{}
	if err := j.LoadTries(t.Context()); err != nil || j.Tries.Count != 0 {
		t.Errorf("stopped: got %d attempts, %v, want none", j.Tries.Count, err)
	}
}

func TestStopUnstarted(t *testing.T) {
	t.Parallel()
	n, err := NewNode(Config{Bus: bustest.Start(t)})
	if err != nil {
		t.Fatal(err)
	}
	n.Stop(t.Context())
}

// TestDeadText has errors of any length kept as text, within the bound.
func TestDeadText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"short", strings.Repeat("é", 3000), strings.Repeat("世", 3000), "a" + strings.Repeat("é", 600), strings.Repeat("\xff", 5000), strings.Repeat("a\xff", 900)} {
		got := deadText(errors.New(text))
		if len(got) > bus.MaxDeadError || !utf8.ValidString(got) || got == "" || len(text) > bus.MaxDeadError && !strings.HasSuffix(got, " [cut]") && utf8.ValidString(text) {
			t.Errorf("%.8q, %d bytes: got %q", text, len(text), got)
		}
	}
}
