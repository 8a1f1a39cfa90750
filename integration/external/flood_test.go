package external

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// admitted is the most that a limit in time admits since a time.
func admitted(perSecond int, since time.Time) int64 {
	return int64(perSecond) * int64(wire.RateBurst+time.Since(since)/time.Second+1)
}

// TestFloodOfRequests sends more requests of a plugin than a node takes. Those above the limit are refused, and the error
// says the limit. Another plugin registers meanwhile, and its instance waits for no more than its own requests.
func TestFloodOfRequests(t *testing.T) {
	t.Parallel()
	for op, c := range map[string]struct {
		body  any
		limit int
		want  string
	}{
		"register": {registration("1", "look"), wire.RegistrationsPerSecond, "20 registrations of one plugin a second"},
		"fire":     {&wire.Fire{Point: "custom.x"}, wire.FiresPerSecond, "50 fired hooks of one plugin a second"},
	} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			s.nodeOf([]string{"notes", "two"})
			client, began := s.client(), time.Now()
			client.request("notes", "register", registration("1", "look"))
			var taken, refused int64
			for range 20 {
				for _, answer := range client.requests(50, "notes", op, c.body) {
					switch {
					case answer.Error == nil:
						taken++
					case answer.Error.Code == wire.CodeRateLimited && strings.Contains(answer.Error.Message, c.want):
						refused++
					default:
						t.Fatalf("%s: got %+v, want %s", op, answer.Error, wire.CodeRateLimited)
					}
				}
			}
			if most := admitted(c.limit, began); taken == 0 || taken > most || refused == 0 {
				t.Errorf("got %d taken and %d refused, want 1 to %d taken", taken, refused, most)
			}
			if got := client.request("two", "register", registration("1", "other")); got.Error != nil {
				t.Errorf("another plugin: got %+v, want none", got.Error)
			}
		})
	}
}

// TestRegistrationIsRepeated starts an instance while its plugin registers more often than a node takes: the instance
// registers later.
func TestRegistrationIsRepeated(t *testing.T) {
	t.Parallel()
	for name, program := range map[string]func(*testing.T) *exec.Cmd{
		"go":         func(t *testing.T) *exec.Cmd { t.Helper(); return own(t.Context()) },
		"typescript": sdkProgram,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := program(t)
			s := start(t)
			s.nodeOf([]string{"notes"})
			client, refused := s.client(), 0
			s.launch("i1", cmd)
			for began := time.Now(); time.Since(began) < 3*time.Second; {
				for _, answer := range client.requests(50, "notes", "register", []byte("{}")) {
					if answer.Error.Code == wire.CodeRateLimited {
						refused++
					}
				}
			}
			if refused == 0 {
				t.Error("registrations: got none refused")
			}
			s.alive(1)
		})
	}
}

// calm is a plugin with a tool that prints ten lines.
func calm(id, tool string) plugin.Factory {
	return plugin.Func(id, func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: tool}, func(_ context.Context, call plugin.Call, _ struct{}) (string, error) {
			for n := range 10 {
				call.Output(plugin.StreamStdout, fmt.Sprintf("line %d\n", n))
			}
			return "calm", nil
		})
		return nil
	})
}

// TestFloodOfACall has an instance send output and callbacks in a call as fast as it can. Callbacks above the limit are
// refused. A call of another plugin, in another session, returns meanwhile with all its output.
func TestFloodOfACall(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.nodeOf([]string{"notes", "two"})
	flooding, stop := make(chan struct{}), make(chan struct{})
	var sent, limited, other atomic.Int64
	var began time.Time
	var first sync.Once // a node asks again after a time without an answer
	s.fake(events.EffectsNonIdempotent, func(verb string, in *wire.Call, send func(any)) {
		switch verb {
		case "callback":
			return
		case "call":
			first.Do(func() { began = time.Now(); close(flooding) })
			go func() { // ends with stop
				text := strings.Repeat("x", wire.MaxOutputBytes)
				pace := time.NewTicker(time.Millisecond)
				defer pace.Stop()
				for n := int64(0); ; n++ {
					select {
					case <-stop:
						send(&wire.Progress{Outcome: &wire.Outcome{Text: "flooded"}})
						return
					case <-pace.C:
					}
					send(&wire.Progress{Output: &wire.Output{Seq: n + 1, Offset: n * wire.MaxOutputBytes, Text: text}})
					for k := range 10 { // above the limit also where this process has little time
						send(&wire.Progress{Callback: &wire.Callback{ID: fmt.Sprint("c", n, "-", k), Method: "GET", Path: "/v1/sessions"}})
						sent.Add(1)
					}
				}
			}()
		}
	})
	watch := s.client()
	_, err := watch.nc.Subscribe(watch.prefix+".plugin.notes.i1.callback", answers(&limited, &other))
	runtest.WantError(t, "subscribe", err, nil)
	s.instance(remote.Config{Plugin: calm("two", "calm")})
	s.Model.Rescript(harness.Reply(harness.Call("k", "hostile", "{}")))
	flooded := s.begin()
	harness.Receive(s.System, "the flood", flooding)
	for n := range 3 {
		s.Model.Rescript(calling("calm", "{}")...)
		id := s.Open(api.CreateRequest{})
		s.StartTurn(id, "t1", harness.Text("go"))
		list, whole := s.outputs(id), ""
		for i, e := range list[:len(list)-1] {
			if int(e.Offset) != len(whole) {
				t.Errorf("turn %d, output %d: got offset %d, want %d", n, i, e.Offset, len(whole))
			}
			whole += e.Text
		}
		if lines := strings.Count(whole, "\n"); lines != 10 {
			t.Errorf("turn %d: got %d lines, want 10", n, lines)
		}
		s.wantResult(id, "calm")
	}
	s.AwaitPolling("a callback that is refused", func() bool { return limited.Load() > 0 })
	s.Model.Rescript(harness.Reply(harness.Text("done")))
	close(stop)
	s.AwaitTurn(flooded, "t1")
	s.wantResult(flooded, "flooded")
	if most := admitted(wire.CallbacksPerSecond, began); other.Load() > most {
		t.Errorf("callbacks: of %d got %d refused for the limit and %d others, want at most %d others", sent.Load(), limited.Load(), other.Load(), most)
	}
}

// answers counts the answers of callbacks that were refused for their rate, and the others.
func answers(limited, other *atomic.Int64) func(*nats.Msg) {
	return func(m *nats.Msg) {
		var a wire.CallbackAnswer
		if json.Unmarshal(m.Data, &a) == nil && strings.Contains(string(a.Body), "25 callbacks of one call a second") {
			limited.Add(1)
			return
		}
		other.Add(1)
	}
}

// sdkProgram is the plugin notes in TypeScript.
func sdkProgram(t *testing.T) *exec.Cmd {
	t.Helper()
	path := copyInto(t, modules(t), filepath.Join("testdata", "typescript", "sessions.mjs"))
	return exec.CommandContext(t.Context(), "node", path) //nolint:gosec // a file of this test
}
