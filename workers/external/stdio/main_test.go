package stdio_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/stdio"
)

// scopeVariable makes the test binary the program of a plugin, with this scope.
const scopeVariable = "LASH_TEST_SCOPE"

func TestMain(m *testing.M) {
	if scope, ok := os.LookupEnv(scopeVariable); ok {
		program(scope)
		return
	}
	if os.Getenv(adapterVariable) != "" {
		adapter()
		return
	}
	goleak.VerifyTestMain(runtest.Select(m))
}

// adapterVariable makes the test binary a process with an adapter, whose child starts a process of its own.
const adapterVariable = "LASH_TEST_ADAPTER"

func adapter() {
	script := `echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[]}}'; trap '' TERM; sleep 600 & echo $$ >&2; while :; do wait; done`
	core, logs := observer.New(zap.DebugLevel)
	printed := make(chan struct{}, 1)
	hook := zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "stderr" {
			printed <- struct{}{}
		}
		return nil
	})
	if _, err := stdio.New(context.Background(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}, Logger: zap.New(core, hook)}); err != nil {
		fmt.Println(err)
		return
	}
	<-printed
	fmt.Println(logs.FilterMessage("stderr").All()[0].ContextMap()["line"])
	time.Sleep(time.Hour) //nolint:forbidigo // it is killed
}

// togetherHooks is the number of hooks that the program answers together.
const togetherHooks = 50

// program serves calls over the standard streams, each in a goroutine of its own.
func program(scope string) {
	var mu sync.Mutex
	say := func(line string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(line+"\n", args...)
	}
	say(`{"type":"register","protocol":1,"manifest":{"version":"1","scope":%q,"tools":[{"name":"echo","effects":"none"},{"name":"once"}]}}`, scope)
	fmt.Fprintln(os.Stderr, "it runs")
	seen, asked, held := []string{}, make(map[string]chan string), make(chan struct{})
	var together []func()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var m struct {
			Type, Session, Call, ID, Invocation, Hook string
			Args                                      struct{ Do, Text string }
			Status                                    int
			Body                                      json.RawMessage
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		if m.Type == os.Getenv("EXIT_AT") {
			os.Exit(7)
		}
		if m.Type != "cancel" && m.Type != "callback" {
			seen = append(seen, m.Type)
		}
		outcome := func(text string) {
			data, _ := json.Marshal(text)
			say(`{"type":"outcome","session":%q,"call":%q,"text":%s}`, m.Session, m.Call, data)
		}
		switch m.Type {
		case "session_start":
			say(`{"type":"placed"}`)
		case "hook":
			answer := func(hook string) {
				say(`{"type":"hook_result","invocation":%q,"hook":%q,"directives":[{"kind":"abort_turn","code":%q}]}`, m.Invocation, hook, "by "+hook)
			}
			switch m.Hook {
			case "late":
			case "together": // answers once each of togetherHooks has come, the last one first
				together = append(together, func(invocation, session string) func() {
					return func() {
						say(`{"type":"hook_result","invocation":%q,"hook":"together","directives":[{"kind":"abort_turn","code":%q}]}`, invocation, session)
					}
				}(m.Invocation, m.Session))
				if len(together) == togetherHooks {
					for _, answer := range slices.Backward(together) {
						answer()
					}
				}
			case "next":
				answer("late")
				fallthrough
			default:
				answer(m.Hook)
			}
		case "callback":
			asked[m.Call] <- fmt.Sprintf("%d %s", m.Status, m.Body)
		case "cancel":
			fmt.Fprintln(os.Stderr, "a cancel of", m.Call)
		case "call":
			ask := make(chan string, 1)
			asked[m.Call] = ask
			history := strings.Join(seen, " ")
			go func() {
				if m.Args.Do != "" {
					say(`{"type":"output","session":%q,"call":%q,"text":"began"}`, m.Session, m.Call)
				}
				switch m.Args.Do {
				case "hang":
				case "sleep": // in the group of the program
					_ = exec.CommandContext(context.Background(), "sleep", "infinity").Run()
				case "die":
					os.Exit(7)
				case "ask":
					say(`{"type":"output","session":%q,"call":%q,"stream":"stderr","text":"asking"}`, m.Session, m.Call)
					say(`{"type":"callback","session":%q,"call":%q,"id":"q","method":"GET","path":"/v1/sessions"}`, m.Session, m.Call)
					outcome(<-ask)
				case "env":
					outcome(strings.Join(os.Environ(), "\n"))
				case "seen":
					outcome(history)
				case "pid":
					outcome(fmt.Sprint(os.Getpid()))
				case "held":
					<-held
					outcome(m.Args.Text)
				case "release": // once
					close(held)
					outcome(m.Args.Text)
				default:
					outcome(m.Args.Text)
				}
			}()
		}
	}
	if os.Getenv("STAY") != "" {
		time.Sleep(time.Hour) //nolint:forbidigo // it is killed
	}
}

// bundle is a plugin that the test binary runs.
type bundle struct {
	*stdio.Adapter
	t    *testing.T
	logs *observer.ObservedLogs
}

// start starts the program. set changes the configuration; nil changes nothing.
func start(t *testing.T, scope string, set func(*stdio.Config)) *bundle {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	cfg := stdio.Config{
		Plugin: "notes", Command: []string{os.Args[0]}, Dir: t.TempDir(), Logger: zap.New(core),
		Env: map[string]string{scopeVariable: scope, "GORACE": "atexit_sleep_ms=0"},
	}
	if set != nil {
		set(&cfg)
	}
	a, err := stdio.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return &bundle{a, t, logs}
}

// caller is the node that waits for a call.
type caller struct {
	remote.Caller // asks no people

	mu      sync.Mutex
	outputs []string
	asked   []string
	hold    chan struct{} // a request waits until it is closed; nil: not
	err     error         // of a request
}

func (c *caller) Output(stream, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outputs = append(c.outputs, stream+" "+text)
}

func (c *caller) Request(_ context.Context, id, method, path string, _ json.RawMessage) (int, json.RawMessage, error) {
	if c.hold != nil {
		<-c.hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, id+" "+method+" "+path)
	if c.err != nil {
		return 0, nil, c.err
	}
	return 200, json.RawMessage(`{"sessions":[]}`), nil
}

// call calls a tool.
func (b *bundle) call(ctx context.Context, session, id, tool, args string) *wire.Outcome {
	return b.callOn(ctx, new(caller), session, id, tool, args)
}

func (b *bundle) callOn(ctx context.Context, on *caller, session, id, tool, args string) *wire.Outcome {
	return b.Call(ctx, &wire.Call{
		CallID: wire.CallID{Session: events.SessionID(session), Call: events.EffectID(id)}, Tool: tool, Args: json.RawMessage(args), Epoch: 1,
	}, on)
}

// begin calls a tool, and returns when it runs. The call's id is what the tool does.
func (b *bundle) begin(ctx context.Context, tool, do string) <-chan *wire.Outcome {
	b.t.Helper()
	return b.beginOn(ctx, new(caller), tool, do)
}

func (b *bundle) beginOn(ctx context.Context, on *caller, tool, do string) <-chan *wire.Outcome {
	b.t.Helper()
	return b.beginIn(ctx, on, "s", do+tool, tool, do)
}

func (b *bundle) beginIn(ctx context.Context, on *caller, session, id, tool, do string) <-chan *wire.Outcome {
	b.t.Helper()
	outcome := make(chan *wire.Outcome, 1)
	go func() { outcome <- b.callOn(ctx, on, session, id, tool, fmt.Sprintf(`{"do":%q,"text":%q}`, do, do)) }()
	bustest.Eventually(b.t, do+" runs", func() bool {
		on.mu.Lock()
		defer on.mu.Unlock()
		return len(on.outputs) > 0
	})
	return outcome
}

// text is the text of a call that must succeed.
func (b *bundle) text(session, id, args string) string {
	b.t.Helper()
	o := b.call(b.t.Context(), session, id, "echo", args)
	if o == nil || o.Failure != nil || o.Cancelled {
		b.t.Fatalf("call %s: got %+v, want a success", args, o)
	}
	return o.Text
}

// awaitEnds waits until n children have ended.
func (b *bundle) awaitEnds(n int) {
	b.t.Helper()
	bustest.Eventually(b.t, fmt.Sprintf("%d children have ended", n), func() bool { return b.logs.FilterMessage("program ended").Len() >= n })
}

// await waits for a line of the log with this text.
func (b *bundle) await(text string) {
	b.t.Helper()
	bustest.Eventually(b.t, "a line of the log with "+text, func() bool {
		return slices.ContainsFunc(b.logs.All(), func(e observer.LoggedEntry) bool {
			return strings.Contains(fmt.Sprint(e.Message, e.ContextMap()), text)
		})
	})
}
