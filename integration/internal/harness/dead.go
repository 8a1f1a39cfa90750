package harness

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// StartHastyNode starts a node that dead-letters after few attempts. stop ends it in order, at once.
func StartHastyNode(t *testing.T, on *bus.Bus, provider llm.Provider) (stop func()) {
	t.Helper()
	return StartHasty(t, on, provider, nil)
}

// StartHasty is [StartHastyNode] with tools of each session.
func StartHasty(t *testing.T, on *bus.Bus, provider llm.Provider, tools func(events.SessionID) *plugin.Tools) (stop func()) {
	t.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Tools: tools, Providers: map[string]llm.Provider{"scripted": provider}, Provider: "scripted", Logger: zaptest.NewLogger(t),
		Runners:  map[string]workers.TaskFunc{"exit": func(context.Context, *workers.RunningTask) (string, error) { os.Exit(0); return "", nil }},
		JobRetry: workers.JobRetry{Attempts: DeadAttempts, Base: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	stop = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // in a cleanup the test's context has ended
			cancel()
			n.Stop(now)
		})
	}
	t.Cleanup(stop)
	return stop
}

// AwaitDeadLetter waits for the dead letter of a session.
func (b *System) AwaitDeadLetter(id events.SessionID) (letter bus.DeadLetter) {
	b.T.Helper()
	b.AwaitPolling("dead letter of "+string(id), func() bool {
		var err error
		letter, err = b.Bus.DeadLetter(b.Ctx, id)
		if err != nil && !errors.Is(err, bus.ErrNotFound) {
			b.T.Fatal(err)
		}
		return err == nil
	})
	return letter
}
