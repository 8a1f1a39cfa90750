package security

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin/wire"
)

// messagesPerCall is below what a node takes of one call in a second.
const messagesPerCall = 40

// nextCall is the call that the attacker answers. nil: none came in time.
func (a *attacker) nextCall() *openCall {
	if a.call != nil {
		select {
		case <-a.call.ended:
			a.call = nil
		default:
		}
	}
	if a.call != nil && a.call.sent >= messagesPerCall {
		a.endCall()
	}
	if a.call == nil {
		select {
		case a.call = <-a.program.calls:
		case <-a.program.s.Ctx.Done():
			a.wrong("calls of the plugin: got none")
			return nil
		}
	}
	a.call.sent++
	return a.call
}

// endCall ends the attacker's call with a result.
func (a *attacker) endCall() {
	if a.call != nil {
		a.program.end(a.call.in.CallID, []byte(`{"outcome":{"text":"done"}}`))
		a.call = nil
	}
}

// callback sends a request of an operation as a callback of a call, and checks the answer. A node ignores a message that is no JSON.
func (a *attacker) callback(op harness.Operation) {
	c := a.nextCall()
	if c == nil {
		return
	}
	session := pick(a.forger, string(c.in.Session), string(c.in.Session), string(c.in.Session), string(c.in.Session), string(c.in.Session), a.id, "warm-0", "nosuch")
	body, method, id := a.json(op, a.fresh), op.Method, a.unique()
	switch a.IntN(30) {
	case 0:
		a.change, method = "method", pick(a.forger, "PROPFIND", "", "G T", "get")
	case 1:
		a.change, id = "id", strings.ToValidUTF8(events.Clip(a.text(), 4000, ""), "?")
	}
	if method != op.Method {
		op.ID = "" // what it accepts is something else
	}
	path := a.path(op, session)
	if a.IntN(40) == 0 {
		op.ID, a.change, path = "", "path", pick(a.forger, wire.AskPath, "/", "", "/v1/../v1/sessions", "http://other/v1/sessions", "/v1/mcp", "/page/index.html", "\x00")
	}
	request := []byte(`{"id":` + quoted(id) + `,"method":` + quoted(method) + `,"path":` + quoted(path) + `,"body":` + body + `}`)
	if body == "" {
		request = []byte(`{"id":` + quoted(id) + `,"method":` + quoted(method) + `,"path":` + quoted(path) + `}`)
	}
	message := append(append([]byte(`{"callback":`), request...), '}')
	if !json.Valid(message) || len(message) > wire.MaxMessageBytes {
		if len(message) <= wire.MaxMessageBytes {
			a.program.send(c, message)
		}
		a.outcome("callback", "ignored")
		return
	}
	answer := a.program.ask(c, id, message)
	if answer == nil {
		a.outcome("callback", "call ended")
		return
	}
	what := fmt.Sprintf("callback %s", clipped(string(request)))
	if answer.Status >= 300 {
		a.outcome("callback", a.problem(what, answer.Status, answer.Body))
		if strings.HasPrefix(id, "u") { // else another callback has it too
			a.undone(answer.Status, events.DerivedID("cb-", string(c.in.Session), string(c.in.Call), id))
		}
		return
	}
	a.accepted("callback", "", 0, "", madeBy(op.ID, answer.Body))
	a.promises(op.ID, events.SessionID(session), answer.Body)
}

// quoted is a text as JSON.
func quoted(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(data)
}

// ask sends a callback, and waits for its answer; nil: the call ended before.
func (p *hostileProgram) ask(c *openCall, id string, message []byte) *wire.CallbackAnswer {
	key := answerKey(c.in.CallID, events.Clip(id, events.MaxIDBytes, ""))
	to := make(chan wire.CallbackAnswer, 1)
	p.mu.Lock()
	p.answers[key] = to
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.answers, key)
	}()
	repeat := time.NewTicker(wire.CallbackRepeat)
	defer repeat.Stop()
	for range 15 {
		p.send(c, message)
		select {
		case answer := <-to:
			return &answer
		case <-c.ended:
			return nil
		case <-repeat.C:
		}
	}
	p.s.wrong("callback %s: got no answer in 30 s", clipped(string(message)))
	return nil
}

// pluginTargets are the other messages of programs of plugins.
func (s *siege) pluginTargets() []target {
	answer := func(name, valid string) target {
		return target{"plugin", name, func(a *attacker) { a.answers(name, valid) }}
	}
	return []target{
		{"plugin", wire.VerbRegister, func(a *attacker) { a.register() }},
		{"plugin", wire.VerbFire, func(a *attacker) { a.fire() }},
		{"plugin", wire.VerbSign, func(a *attacker) { a.sign() }},
		answer("output", `{"output":{"seq":1,"off":0,"stream":"stdout","text":"a line"}}`),
		answer("piece", `{"piece":{"n":0,"data":"e30="}}`),
		answer("outcome", `{"outcome":{"text":"done","attachments":[{"media_type":"image/png","data":"eA=="}],"control":"","emit":[{"x":1}]}}`),
		answer("failure", `{"outcome":{"failure":{"class":"execution","code":"x","message":"it failed","safe":true}}}`),
		answer("pieces", `{"pieces":1}`),
		answer("error", `{"error":{"code":"draining","message":"no more calls"}}`),
		answer("forgotten", `{"forgotten":true}`),
	}
}

// answers sends a message of a call that has no answer. What ends the call is its outcome, as far as the node takes it; where
// it does not, the call ends with a valid one.
func (a *attacker) answers(name, valid string) {
	c := a.nextCall()
	if c == nil {
		return
	}
	data := []byte(a.mutated(valid, func(any) {}))
	if len(data) > wire.MaxMessageBytes {
		data = data[:wire.MaxMessageBytes]
	}
	a.program.send(c, data)
	a.outcome("plugin", "ok")
	if name != "output" && name != "piece" {
		a.endCall()
	}
}

// register sends a registration of a plugin without an instance. A hook that it could add would be called by no session.
func (a *attacker) register() {
	plugin := pick(a.forger, rogues()...)
	if a.IntN(10) == 0 {
		a.change, plugin = "manifest", hostileTool
	}
	valid := `{"protocol":1,"instance":"i2","manifest":{"version":"` + a.unique() + `","tools":[{"name":"` + plugin + `_look","description":"d","schema":{"type":"object"},"effects":"none","timeout_ms":5,"serial":true}],` +
		`"hooks":[{"name":"h","point":"custom.x","timeout_ms":5}],"prompt":[{"slot":"intro","title":"t","priority":1,"content":"be kind"}]},"rollback":false}`
	var answer wire.Registered
	a.asked(plugin, wire.VerbRegister, a.mutated(valid, func(any) {}), &answer, func() *wire.Error { return answer.Error })
}

// fire requests that the hooks of the others are called.
func (a *attacker) fire() {
	var answer wire.Fired
	body := a.mutated(`{"point":"custom.x","session":"`+a.id+`","data":{"x":1}}`, func(any) {})
	a.asked(pick(a.forger, rogues()...), wire.VerbFire, body, &answer, func() *wire.Error { return answer.Error })
}

// asked sends a request of a plugin, and checks its refusal.
func (a *attacker) asked(plugin, verb, body string, answer any, refused func() *wire.Error) {
	if len(body) > wire.MaxMessageBytes {
		body = body[:wire.MaxMessageBytes]
	}
	if err := a.program.request(plugin, verb, []byte(body), answer); err != nil {
		a.wrong("%s %s: %v", verb, clipped(body), err)
		return
	}
	why := refused()
	switch {
	case why == nil:
		a.outcome("plugin", "ok")
		return
	case why.Code == wire.CodeInternal && strings.HasPrefix(why.Message, "plugin rogue"): // has no instance for its hook
	case why.Code == wire.CodeInternal || why.Message == "":
		a.wrong("%s %s: got %+v", verb, clipped(body), why)
	case why.Field == "" && !strings.Contains(why.Message, "limit"):
		a.wrong("%s %s: got %+v, want a field or a limit", verb, clipped(body), why)
	}
	a.outcome("plugin", why.Code)
}

// sign sends a sign of life of an instance.
func (a *attacker) sign() {
	plugin := pick(a.forger, rogues()...)
	body := a.mutated(`{"hash":"`+a.program.hash+`","draining":false,"machine":"m","running":1,"calls":2,"failures":3}`, func(any) {})
	instance := pick(a.forger, "i2", "i3", a.unique(), "all")
	if err := a.program.conns[plugin].Publish("lash.plugin-live."+plugin+"."+instance, []byte(body[:min(len(body), wire.MaxMessageBytes)])); err != nil {
		a.wrong("sign of %s: %v", plugin, err)
	}
	a.outcome("plugin", "ok")
}
