package external

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// exchange is a call that the test sends in place of a node.
type exchange struct {
	t       *testing.T
	c       *client
	answers *nats.Subscription
	seen    []wire.Progress
}

// send sends a message to the instance of the client, which answers with the returned exchange.
func (c *client) send(t *testing.T, verb string, message any) *exchange {
	t.Helper()
	data, ok := message.([]byte)
	if !ok {
		var err error
		data, err = json.Marshal(message)
		runtest.WantError(t, "message", err, nil)
	}
	reply := c.nc.NewRespInbox()
	answers, err := c.nc.SubscribeSync(reply)
	runtest.WantError(t, "subscribe", err, nil)
	t.Cleanup(func() { _ = answers.Unsubscribe() }) // the connection may be closed
	runtest.WantError(t, "publish", c.nc.PublishRequest(c.prefix+".plugin.notes."+c.instance+"."+verb, reply, data), nil)
	return &exchange{t: t, c: c, answers: answers}
}

// ask sends a message, and reads its one answer.
func (c *client) ask(t *testing.T, verb string, message, answer any) {
	t.Helper()
	c.send(t, verb, message).answer(answer)
}

// answer reads the one answer.
func (e *exchange) answer(answer any) {
	e.t.Helper()
	m, err := e.answers.NextMsg(time.Minute)
	if err != nil {
		e.t.Fatalf("answer: %v", err)
	}
	runtest.WantError(e.t, "answer", json.Unmarshal(m.Data, answer), nil)
}

func aCall(id, tool, args string) *wire.Call {
	return &wire.Call{
		CallID: wire.CallID{Session: "s", Call: events.EffectID("t/0/" + id)}, Turn: "t", Model: "m", Key: "key-" + id,
		Tool: tool, Args: json.RawMessage(args),
	}
}

// next reads answers until one matches, and returns it.
func (e *exchange) next(match func(p *wire.Progress) bool) *wire.Progress {
	e.t.Helper()
	for {
		m, err := e.answers.NextMsg(time.Minute)
		if err != nil {
			e.t.Fatalf("answer: %v after %+v", err, e.seen)
		}
		var p wire.Progress
		runtest.WantError(e.t, "answer", json.Unmarshal(m.Data, &p), nil)
		e.seen = append(e.seen, p)
		if match(&p) {
			return &p
		}
	}
}

// outcome reads until the last answer, and puts the outcome's pieces together.
func (e *exchange) outcome() *wire.Outcome {
	e.t.Helper()
	last := e.next((*wire.Progress).Last)
	if last.Pieces == 0 {
		if last.Outcome == nil {
			e.t.Fatalf("answer: got %+v, want an outcome", last)
		}
		return last.Outcome
	}
	var data []byte
	n := 0
	for _, p := range e.seen {
		if p.Piece != nil {
			runtest.Equal(e.t, "number of the piece", p.Piece.N, n)
			data = append(data, p.Piece.Data...)
			n++
		}
	}
	runtest.Equal(e.t, "pieces", last.Pieces, n)
	var o wire.Outcome
	runtest.WantError(e.t, "outcome", json.Unmarshal(data, &o), nil)
	return &o
}

// conformanceProgram copies the conformance plugin of the SDK into a folder, and returns both paths.
func conformanceProgram(t *testing.T) (dir, program string) {
	t.Helper()
	dir = modules(t)
	program = copyInto(t, dir, filepath.Join(sdk, "conformance", "conformance.js"))
	runtest.WantError(t, "a module", os.Rename(program, program+".mjs"), nil)
	return dir, program + ".mjs"
}

// TestChecksOfTypeScript runs the checks of lash-node on the conformance plugin.
func TestChecksOfTypeScript(t *testing.T) {
	t.Parallel()
	dir, program := conformanceProgram(t)
	out := runIn(t, dir, harness.BuildCommand(t, "lash-node"), "plugin", "check", "--timeout", "2m", "--late", "2m", "--name", "conformance", "--", "node", program)
	if n := strings.Count(out, "ok  "); n < 40 {
		t.Errorf("got %d checks, want those of the plugin conformance:\n%s", n, out)
	}
}

// TestChecksWithoutSDK runs the checks of lash-node on the same plugin in JavaScript that has a NATS client and no SDK: what
// it does is written in PROTOCOL.md. It imports nothing of the SDK.
func TestChecksWithoutSDK(t *testing.T) {
	t.Parallel()
	dir := modules(t)
	runtest.WantError(t, "remove the SDK", os.RemoveAll(filepath.Join(dir, "node_modules", "@lash")), nil)
	program := copyInto(t, dir, filepath.Join("testdata", "conformance.mjs"))
	out := runIn(t, dir, harness.BuildCommand(t, "lash-node"), "plugin", "check", "--timeout", "2m", "--late", "2m", "--name", "conformance", "--", "node", program)
	if n := strings.Count(out, "ok  "); n < 40 {
		t.Errorf("got %d checks, want those of the plugin conformance:\n%s", n, out)
	}
}

// TestConformance sends the conformance plugin what the checks of lash-node do not.
func TestConformance(t *testing.T) {
	t.Parallel()
	_, program := conformanceProgram(t)
	s := start(t)
	s.node()
	c := s.client()
	p := s.launch("i1", exec.CommandContext(s.Ctx, "node", program)) //nolint:gosec // a file of this test
	s.alive(1)
	c.instance = s.idOf("i1")
	for _, check := range conformance {
		t.Run(check.name, func(t *testing.T) { check.run(t, c) })
	}
	t.Run("drain_serves_the_call_that_runs", func(t *testing.T) {
		last := aCall("last", "ask", `{"id":"q","method":"GET","path":"/v1/sessions"}`)
		drains(t, c, p, last, func(call wire.CallID) {
			c.send(t, "callback", wire.CallbackAnswer{CallID: call, ID: "q", Status: 200, Body: json.RawMessage(`{"a":1}`)})
		}, `{"status":200,"body":{"a":1}}`)
	})
}

// conformance has what an instance does in answer to messages.
var conformance = []struct {
	name string
	run  func(t *testing.T, c *client)
}{
	{"failures", func(t *testing.T, c *client) {
		got := c.send(t, "call", aCall("fail", "fail", `{"class":"external","message":"closed","safe":true}`)).outcome()
		runtest.DeepEqual(t, "failure", got, &wire.Outcome{Failure: &wire.Failure{Class: "external", Message: "closed", Safe: true}})
		got = c.send(t, "call", aCall("throw", "throw", `{}`)).outcome()
		if got.Failure == nil || got.Failure.Class != "internal" {
			t.Errorf("exception: got %+v, want an internal failure", got)
		}
		long := strings.Repeat("\u00e9", 10000)
		got = c.send(t, "call", aCall("long", "fail", `{"message":"x`+long+`"}`)).outcome()
		runtest.Equal(t, "long message", got.Failure.Message, "x"+long[:16382])
		c.send(t, "call", aCall("success", "echo", `{"text":"fine"}`)).outcome()
		signs, err := c.nc.SubscribeSync(c.prefix + ".plugin-live.notes." + c.instance)
		runtest.WantError(t, "subscribe", err, nil)
		runtest.WantError(t, "ask for signs", c.nc.Publish(c.prefix+".plugin.notes.all.sign", nil), nil)
		c.send(t, "call", aCall("next", "echo", `{"text":"fine"}`)).outcome() // it follows the sign
		m, err := signs.NextMsg(time.Minute)
		runtest.WantError(t, "sign", err, nil)
		var sign wire.Sign
		runtest.WantError(t, "sign", json.Unmarshal(m.Data, &sign), nil)
		if sign.Failures != 3 || sign.Calls != 4 || sign.Machine == "" {
			t.Errorf("sign: got %+v, want 3 failures of 4 calls", sign)
		}
	}},
	{"outcome_over_the_limit_is_a_failure", func(t *testing.T, c *client) {
		for tool, bytes := range map[string]int{"big": wire.MaxOutcomeBytes, "picture": wire.MaxAttachment + 1} {
			got := c.send(t, "call", aCall("over-"+tool, tool, fmt.Sprintf(`{"bytes":%d}`, bytes))).outcome()
			if got.Failure == nil || got.Failure.Class != "resource_limit" {
				t.Errorf("%s: got %.100v, want a failure", tool, got)
			}
		}
	}},
	{"outputs_are_few_and_complete", func(t *testing.T, c *client) {
		e := c.send(t, "call", aCall("print", "print", `{"lines":5000}`))
		runtest.Equal(t, "text", e.outcome().Text, "printed 5000")
		got, n := "", int64(0)
		for _, p := range e.seen {
			if o := p.Output; o != nil {
				n++
				if o.Seq != n || o.Offset != int64(len(got)) || len(o.Text) > wire.MaxOutputBytes {
					t.Fatalf("output %d: got seq %d, offset %d, %d bytes, after %d bytes", n, o.Seq, o.Offset, len(o.Text), len(got))
				}
				got += o.Text
			}
		}
		want := ""
		for i := range 5000 {
			want += fmt.Sprintf("line %d\n", i+1)
		}
		if got != want || n > wire.OutputsPerSecond {
			t.Errorf("got %d bytes in %d outputs, want %d bytes in at most %d", len(got), n, len(want), wire.OutputsPerSecond)
		}
	}},
	{"callback_is_repeated_until_its_answer", func(t *testing.T, c *client) {
		call := aCall("ask", "ask", `{"id":"q","method":"POST","path":"/v1/sessions","body":{"a":1}}`)
		isCallback := func(p *wire.Progress) bool { return p.Callback != nil }
		e := c.send(t, "call", call)
		want := &wire.Callback{ID: "q", Method: "POST", Path: "/v1/sessions", Body: json.RawMessage(`{"a":1}`)}
		runtest.DeepEqual(t, "callback", e.next(isCallback).Callback, want)
		newer := c.send(t, "call", call)
		runtest.DeepEqual(t, "repeat", newer.next(isCallback).Callback, want)
		c.send(t, "callback", wire.CallbackAnswer{CallID: call.CallID, ID: "other", Status: 500})
		c.send(t, "callback", wire.CallbackAnswer{CallID: call.CallID, ID: "q", Status: 201, Body: json.RawMessage(`{"id":"child"}`)})
		runtest.Equal(t, "text", newer.outcome().Text, `{"status":201,"body":{"id":"child"}}`)
	}},
	{"cancel_overtakes_its_call", func(t *testing.T, c *client) {
		call := aCall("cancel", "sleep", `{"millis":60000}`)
		e := c.send(t, "call", call)
		e.next(func(p *wire.Progress) bool { return true })
		c.send(t, "cancel", wire.Cancel{CallID: call.CallID, GraceMS: 1000})
		if got := e.outcome(); !got.Cancelled || !strings.HasSuffix(got.Text, " of 60000 ms") || got.Failure != nil {
			t.Errorf("got %+v, want what the tool has", got)
		}
		call = aCall("asks", "ask", `{"id":"q","method":"GET","path":"/v1/sessions"}`)
		e = c.send(t, "call", call)
		e.next(func(p *wire.Progress) bool { return p.Callback != nil })
		c.send(t, "cancel", wire.Cancel{CallID: call.CallID, GraceMS: 1000})
		runtest.DeepEqual(t, "cancelled request", e.outcome(), &wire.Outcome{Cancelled: true})
	}},
	{"messages_without_a_reply_subject", func(t *testing.T, c *client) {
		call := aCall("unread", "ask", `{"id":"q","method":"GET","path":"/v1/sessions"}`)
		unread := aCall("unread-too", "echo", `{"text":"unread"}`)
		e := c.send(t, "call", call)
		e.next(func(p *wire.Progress) bool { return p.Callback != nil })
		for _, verb := range []string{"call", "cancel", "recorded", "callback", "hook", "session_start", "idle"} {
			for _, message := range []*wire.Call{call, unread} {
				if verb == "cancel" && message == call {
					continue
				}
				data, err := json.Marshal(message)
				runtest.WantError(t, "message", err, nil)
				runtest.WantError(t, "publish", c.nc.Publish(c.prefix+".plugin.notes."+c.instance+"."+verb, data), nil)
			}
		}
		newer := c.send(t, "call", call)
		newer.next(func(p *wire.Progress) bool { return true }) // the others are read
		for range 2 {
			newer.next(func(p *wire.Progress) bool { return *p == wire.Progress{} }) // a sign of life of each second
		}
		c.send(t, "callback", wire.CallbackAnswer{CallID: call.CallID, ID: "q", Status: 200, Body: json.RawMessage(`{}`)})
		runtest.Equal(t, "text", newer.outcome().Text, `{"status":200,"body":{}}`)
		runtest.Equal(t, "unread text", c.send(t, "call", unread).outcome().Text, "unread")
	}},
	{"registers_again", registers},
	{"garbage_is_refused", func(t *testing.T, c *client) {
		for _, verb := range []string{"call", "cancel", "recorded", "callback", "hook", "session_start", "idle", "register"} {
			for _, garbage := range []string{"{", "null", "[]", `{"session":7,"call":{},"tool":[]}`} {
				c.send(t, verb, []byte(garbage))
			}
		}
		for _, verb := range []string{"call", "hook"} {
			var answer struct{ Error *wire.Error }
			if c.ask(t, verb, []byte("{"), &answer); answer.Error == nil || answer.Error.Code != wire.CodeBadRequest {
				t.Errorf("%s: got %+v, want it refused", verb, answer.Error)
			}
		}
		runtest.Equal(t, "text", c.send(t, "call", aCall("after", "echo", `{"text":"alive"}`)).outcome().Text, "alive")
	}},
	{"calls_of_sessions_with_like_names", func(t *testing.T, c *client) {
		call := aCall("like", "echo", `{"text":"mine"}`)
		runtest.Equal(t, "text", c.send(t, "call", call).outcome().Text, "mine")
		session, rest, _ := strings.Cut(string(call.Session)+"/"+string(call.Call), "/0/")
		other := *call
		other.Session, other.Call = events.SessionID(session), events.EffectID("0/"+rest)
		refused(t, c.send(t, "call", &other), wire.CodeBadRequest)
	}},
}

func refused(t *testing.T, e *exchange, code string) {
	t.Helper()
	if last := e.next((*wire.Progress).Last); last.Error == nil || last.Error.Code != code {
		t.Errorf("got %+v, want the error %s", last, code)
	}
}

// drains sends SIGTERM while a call runs, whose result is want after end.
func drains(t *testing.T, c *client, p *process, call *wire.Call, end func(call wire.CallID), want string) {
	t.Helper()
	signs, err := c.nc.SubscribeSync(c.prefix + ".plugin-live.notes." + c.instance)
	runtest.WantError(t, "subscribe", err, nil)
	e := c.send(t, "call", call)
	e.next(func(*wire.Progress) bool { return true })
	p.signal(syscall.SIGTERM)
	for {
		m, err := signs.NextMsg(time.Minute)
		runtest.NoError(t, err)
		var sign wire.Sign
		runtest.WantError(t, "sign", json.Unmarshal(m.Data, &sign), nil)
		if sign.Draining {
			runtest.Equal(t, "calls that run", sign.Running, 1)
			break
		}
	}
	early := c.send(t, "call", aCall("early", call.Tool, string(call.Args))) // by a node that has not read the sign
	var late *exchange
	served := make(map[string]*exchange)
	bustest.Eventually(t, "a call is refused", func() bool { // after the time in which nodes learn of the drain
		id := fmt.Sprint("late", len(served))
		late = c.send(t, "call", aCall(id, call.Tool, string(call.Args)))
		if late.next(func(*wire.Progress) bool { return true }).Error != nil {
			return true
		}
		served[id] = late
		return false
	})
	runtest.Equal(t, "code", late.seen[0].Error.Code, wire.CodeDraining)
	served["early"], served["last"] = early, e
	for id, e := range served {
		of := aCall(id, call.Tool, `{}`).CallID
		end(of)
		runtest.Equal(t, "text of "+id, e.outcome().Text, want)
		c.send(t, "recorded", of)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	runtest.WantError(t, "exit", bustest.Receive(t, "the end of the program", ended), nil)
}
