package external

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// countedReads has sessions without turns, and counts how often they are read.
type countedReads struct {
	operation.Host

	mu    sync.Mutex
	reads int
}

func (c *countedReads) State(_ context.Context, id events.SessionID) (*projector.State, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return projector.New(id), nil
}

// TestWithdrawnQuestionsHaveAPace has signs of life withdraw other questions of a session a hundred times a second, and the first
// one again and again. Each costs a read of its session, so a node looks at one sign a second, and at one question once. Questions
// with invalid names are logged in one line a second.
func TestWithdrawnQuestionsHaveAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		logs, seen := observer.New(zap.WarnLevel)
		service := &countedReads{}
		p := &Plugins{ctx: ctx, log: zap.New(logs), works: map[string]*works{"notes": {}}}
		if err := p.ServeAPI(APIConfig{Service: service}); err != nil {
			t.Fatal(err)
		}
		for n := range 1000 { // 10 s
			node{p}.Withdrawn("notes", []wire.Question{
				{CallID: wire.CallID{Session: "s", Call: "t1/0/0"}, ID: "same"},
				{CallID: wire.CallID{Session: "s", Call: "t1/0/0"}, ID: fmt.Sprint(n)},
				{CallID: wire.CallID{Session: "no token", Call: "t1/0/0"}, ID: fmt.Sprint(n)},
			})
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // in a bubble
		}
		end()
		synctest.Wait()
		if service.reads < 10 || service.reads > 12 { // one of same, and one of each of 10 or 11 rounds
			t.Errorf("got %d reads of the session, want about 11", service.reads)
		}
		if n := seen.Len(); n < 10 || n > 11 {
			t.Errorf("got %d lines of the log, want one of each round", n)
		}
	})
}
