package external

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/external"
)

// TestHolderOutlivesSettings has a node with other settings take over a call that the history gives to an instance. The
// instance drains. The call stays there, and runs once.
func TestHolderOutlivesSettings(t *testing.T) {
	t.Parallel()
	s := start(t, calling("look", `{"text":"milk","hold":true}`)...)
	s.config.Plugins = []external.Plugin{{Name: "notes", Effects: map[string]events.Effects{"look": "non_idempotent"}}}
	kill := s.node()
	calls := s.sentCalls()
	programs := map[string]*process{"i1": s.program("i1"), "i2": s.program("i2")}
	id := s.begin()
	holder := strings.Fields(s.logged("began", 1)[0])[2]
	runtest.DeepEqual(t, "holders", s.holders(id), []string{holder})
	s.config.Plugins = []external.Plugin{{Name: "notes"}}
	s.node()
	programs[holder].signal(syscall.SIGTERM)
	s.draining(holder)
	kill()
	for range 2 { // of both nodes
		runtest.Equal(t, "the program hears that it must not run twice", s.sent(calls).Once, true)
	}
	s.release()
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k"), "noted: milk")
	runtest.DeepEqual(t, "runs", s.began(), 1)
}

// TestOvertakenNodeCancelsNothing has a worker that is gone take over a turn whose call runs, and the first node take the turn back: the call goes on, and its result is the call's.
func TestOvertakenNodeCancelsNothing(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"look", "write"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(tool, `{"text":"milk","hold":true}`)...)
			s.node()
			s.program("i1")
			c, calls := s.client(), s.sentCalls()
			cancels, err := c.nc.SubscribeSync(c.prefix + ".plugin.notes.*.cancel")
			runtest.WantError(t, "subscribe", err, nil)
			runtest.WantError(t, "subscribe", c.nc.Flush(), nil)
			id := s.begin()
			s.sent(calls)
			s.logged("began", 1)
			worker := s.StateOf(id).Turn().Worker
			s.CommitToTurn(id, &events.TurnStarted{Attempt: 2, Worker: "gone"})
			runtest.WantError(t, "notify", s.Bus.Notify(worker, id), nil)
			s.sent(calls)
			s.release()
			s.AwaitTurn(id, "t1")
			s.wantResult(id, "noted: milk")
			runtest.DeepEqual(t, "runs", s.began(), 1)
			runtest.WantError(t, "what was sent before", c.nc.Flush(), nil)
			n, _, err := cancels.Pending()
			runtest.WantError(t, "cancels", err, nil)
			runtest.Equal(t, "cancels", n, 0)
		})
	}
}

// TestArgumentsAsTheyAre calls tools with arguments of which JSON encoders escape each character. The message has their
// size, so the call arrives.
func TestArgumentsAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"write", "look"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			s := start(t, calling(tool, fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("<>&", 200_000)))...)
			s.node()
			s.program("i1")
			id := s.begin()
			s.AwaitTurn(id, "t1")
			runtest.DeepEqual(t, "runs", s.began(), 1)
			runtest.DeepEqual(t, "instances", len(s.first.Status()[0].Instances), 1)
		})
	}
}
