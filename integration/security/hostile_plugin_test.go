package security

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// hostileTool is the plugin whose calls are hostile, and the name of its tool. Sessions add its tool by themselves.
const hostileTool = "hostile"

// hostileManifest is what its program registers.
func hostileManifest() wire.Manifest {
	return wire.Manifest{Version: "1", Tools: []wire.Tool{{Name: hostileTool, Effects: events.EffectsIdempotent}}}
}

// rogues are plugins that register what they like.
func rogues() []string { return []string{"rogue1", "rogue2", "rogue3", "rogue4"} }

// hostilePlugins are the plugins of the fleet. The first one may request every operation in its calls; only its
// manifest may register.
func hostilePlugins() []external.Plugin {
	manifest := hostileManifest()
	first := external.Plugin{Name: hostileTool, BySession: true, Tools: []string{hostileTool}, Manifests: []string{manifest.Hash()}, Callbacks: []string{wire.AskOperation, wire.TraceOperation}}
	for _, row := range operation.All() {
		if row.Route != "" {
			first.Callbacks = append(first.Callbacks, row.ID)
		}
	}
	list := []external.Plugin{first}
	for _, name := range rogues() {
		list = append(list, external.Plugin{Name: name, BySession: true})
	}
	return list
}

// hostileModel is the recorded model, which in sessions of the program calls its tool once each turn.
type hostileModel struct{ llm.Provider }

func withHostileTool(recorded llm.Provider) llm.Provider { return hostileModel{recorded} }

// Complete implements [llm.Provider].
func (m hostileModel) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if !strings.HasPrefix(string(req.Session), "p-") {
		return m.Provider.Complete(ctx, req, sink)
	}
	reply := harness.Text("done")
	if req.Iteration == 0 {
		reply = harness.Call("k", hostileTool, "{}")
	}
	return scripted.New(scripted.Script(harness.Reply(reply))).Complete(ctx, req, sink)
}

// hostileProgram is the program of the plugin: it answers calls as attackers want it to.
type hostileProgram struct {
	s     *siege
	conns map[string]*nats.Conn // by plugin
	hash  string
	calls chan *openCall
	stop  context.CancelFunc
	ctx   context.Context

	mu       sync.Mutex
	open     map[wire.CallID]*openCall
	over     map[wire.CallID]bool
	answers  map[string]chan wire.CallbackAnswer // by session, call and id
	draining bool
}

// openCall is a call that waits for its outcome.
type openCall struct {
	in    wire.Call
	ended chan struct{}
	sent  int

	mu    sync.Mutex
	reply string
}

// startHostileProgram starts the program, which registers and says that it lives until the test ends.
func (s *siege) startHostileProgram() *hostileProgram {
	s.T.Helper()
	p := &hostileProgram{
		s: s, conns: make(map[string]*nats.Conn), calls: make(chan *openCall, 1024),
		open: make(map[wire.CallID]*openCall), over: make(map[wire.CallID]bool), answers: make(map[string]chan wire.CallbackAnswer),
	}
	for _, of := range s.plugins {
		p.conns[of.Name] = s.d.conn("plugin-"+of.Name+"@acme", nats.ErrorHandler(new(bustest.Refusals).Handler))
	}
	_, err := p.conns[hostileTool].Subscribe("lash.plugin."+hostileTool+".i1.*", p.receive)
	runtest.WantError(s.T, "subscribe", err, nil)
	manifest := hostileManifest()
	body, err := json.Marshal(&wire.Registration{Protocol: wire.Version, Instance: "i1", Manifest: manifest})
	runtest.WantError(s.T, "registration", err, nil)
	var answer wire.Registered
	runtest.WantError(s.T, "register", p.request(hostileTool, wire.VerbRegister, body, &answer), nil)
	if p.hash = manifest.Hash(); answer.Hash != p.hash {
		s.T.Fatalf("register: got %+v", answer)
	}
	p.ctx, p.stop = context.WithCancel(s.Ctx)
	var living sync.WaitGroup
	living.Go(p.live)
	s.T.Cleanup(func() { p.stop(); living.Wait() })
	return p
}

// request sends a request of a plugin, and decodes the answer.
func (p *hostileProgram) request(plugin, verb string, body []byte, answer any) error {
	ctx, cancel := context.WithTimeout(p.s.Ctx, 2*time.Minute)
	defer cancel()
	m, err := p.conns[plugin].RequestWithContext(ctx, "lash.plugins."+plugin+"."+verb, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(m.Data, answer)
}

// live sends signs of life, of the instance and of its calls, until the test ends.
func (p *hostileProgram) live() {
	sign, _ := json.Marshal(&wire.Sign{Hash: p.hash})
	every := time.NewTicker(wire.SignEvery / 2)
	defer every.Stop()
	for {
		_ = p.conns[hostileTool].Publish("lash.plugin-live."+hostileTool+".i1", sign)
		p.mu.Lock()
		for _, c := range p.open {
			p.send(c, []byte("{}"))
		}
		p.mu.Unlock()
		select {
		case <-every.C:
		case <-p.ctx.Done():
			return
		}
	}
}

// send sends an answer to the node that waits for a call.
func (p *hostileProgram) send(c *openCall, data []byte) {
	c.mu.Lock()
	reply := c.reply
	c.mu.Unlock()
	_ = p.conns[hostileTool].Publish(reply, data)
}

// receive handles a message of a node.
func (p *hostileProgram) receive(m *nats.Msg) {
	switch m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] {
	case wire.VerbCall:
		var in wire.Call
		if json.Unmarshal(m.Data, &in) == nil {
			p.called(in, m.Reply)
		}
	case wire.VerbCancel:
		var in wire.Cancel
		if json.Unmarshal(m.Data, &in) == nil {
			p.end(in.CallID, []byte(`{"outcome":{"cancelled":true}}`))
		}
	case wire.VerbCallback:
		var a wire.CallbackAnswer
		if json.Unmarshal(m.Data, &a) != nil {
			return
		}
		p.mu.Lock()
		to := p.answers[answerKey(a.CallID, a.ID)]
		p.mu.Unlock()
		select {
		case to <- a:
		default: // nothing waits for it
		}
	}
}

func answerKey(call wire.CallID, id string) string {
	return fmt.Sprintf("%s %s %s", call.Session, call.Call, id)
}

// called gives a new call to the attackers. One that has ended is over, whatever its first outcome was.
func (p *hostileProgram) called(in wire.Call, reply string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.open[in.CallID]
	if c != nil {
		c.mu.Lock()
		c.reply = reply
		c.mu.Unlock()
		return
	}
	if p.over[in.CallID] || p.draining {
		p.over[in.CallID] = true
		_ = p.conns[hostileTool].Publish(reply, []byte(`{"outcome":{"text":"over"}}`))
		return
	}
	c = &openCall{in: in, reply: reply, ended: make(chan struct{})}
	p.open[in.CallID] = c
	p.calls <- c
}

// end answers a call, if it is open.
func (p *hostileProgram) end(id wire.CallID, outcome []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.open[id]
	if c == nil {
		return
	}
	delete(p.open, id)
	p.over[id] = true
	p.send(c, outcome)
	close(c.ended)
}

// drain ends the calls that no attacker has, and those that come.
func (p *hostileProgram) drain() {
	p.mu.Lock()
	p.draining = true
	var list []wire.CallID
	for id := range p.open {
		list = append(list, id)
	}
	p.mu.Unlock()
	for _, id := range list {
		p.end(id, []byte(`{"outcome":{"text":"drained"}}`))
	}
}

func (p *hostileProgram) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.draining
}

// ended counts the calls that have an outcome.
func (p *hostileProgram) ended() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.over)
}

// warm runs a turn that calls the tool.
func (p *hostileProgram) warm() {
	p.s.T.Helper()
	ended := make(chan error, 1)
	go func() { ended <- p.turn("p-warm", "t0") }() // ends with the turn
	select {
	case c := <-p.calls:
		p.end(c.in.CallID, []byte(`{"outcome":{"text":"warm"}}`))
	case <-p.s.Ctx.Done():
	}
	runtest.WantError(p.s.T, "a turn with a call of the plugin", <-ended, nil)
}

// supply runs turns that call the tool, until the program drains. Each ends, whatever the program answers.
func (p *hostileProgram) supply(running *sync.WaitGroup) {
	for n := range 6 {
		running.Go(func() {
			for i := 0; !p.drained(); i++ {
				id := events.SessionID(fmt.Sprintf("p-%d-%d", n, i/5))
				if err := p.turn(id, events.TurnID(fmt.Sprint("go", i%5))); errors.Is(err, context.DeadlineExceeded) {
					p.s.wrong("turn %d of %s: %v", i%5, id, err)
				}
			}
		})
	}
}

// turn runs a turn in a session, which it creates. A callback may have changed the session so that it takes no turn.
func (p *hostileProgram) turn(id events.SessionID, turn events.TurnID) error {
	ctx, host := p.s.Ctx, p.s.node.Host()
	_, err := host.Create(ctx, api.CreateRequest{ID: id})
	if err == nil {
		p.s.record(id)
		_, err = host.AddToolSource(ctx, id, hostileTool)
	}
	if err != nil && !errors.Is(err, api.ErrExists) {
		return err
	}
	if _, err = host.Submit(ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: small(5)}}); err == nil {
		_, err = host.Await(ctx, id, turn)
	}
	return err
}
