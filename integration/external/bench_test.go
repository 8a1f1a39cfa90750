package external

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// hookedTool is the only tool whose calls have a hook of the plugin of benchmarks.
const hookedTool = "hooked"

// benchmarked is the plugin of benchmarks. Its process also answers raw requests at raw.INSTANCE.
func benchmarked(conn *nats.Conn, instance string) (plugin.Factory, error) {
	_, err := conn.Subscribe("raw."+instance, func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) })
	type waiting struct {
		Millis int `json:"millis,omitempty"`
	}
	wait := func(_ context.Context, _ plugin.Call, in waiting) (string, error) {
		time.Sleep(time.Duration(in.Millis) * time.Millisecond)
		return instance, nil
	}
	type printing struct {
		Lines int `json:"lines"`
		Bytes int `json:"bytes"` // of a line
	}
	return plugin.Func("measured", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
		plugin.AddTool(r, plugin.Tool{Name: "repeatable", Effects: events.EffectsIdempotent}, wait)
		plugin.AddTool(r, plugin.Tool{Name: "once"}, wait)
		plugin.AddTool(r, plugin.Tool{Name: "serial", Effects: events.EffectsIdempotent, Serial: true}, wait)
		plugin.AddTool(r, plugin.Tool{Name: "held", Effects: events.EffectsIdempotent}, func(context.Context, plugin.Call, waiting) (string, error) {
			_, err := conn.Request("began", []byte(instance), time.Minute)
			return instance, err
		})
		plugin.AddTool(r, plugin.Tool{Name: "print", Effects: events.EffectsIdempotent}, func(_ context.Context, call plugin.Call, in printing) (string, error) {
			line, began := strings.Repeat("x", in.Bytes-1)+"\n", time.Now()
			for n := range in.Lines {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / linesPerSecond)))
				call.Output(plugin.StreamStdout, line)
			}
			return instance, nil
		})
		return nil
	}), err
}

// measured is a node with the plugin of benchmarks. Server, node and model are in this process, instances are not.
type measured struct {
	*testing.B
	server  *busembed.Server
	bus     *bus.Bus
	host    *session.Host
	stacks  *plugin.Builder // of sessions
	plugins *external.Plugins
	live    int      // instances that were started
	loads   sync.Map // of the sessions: *workload
}

func measure(b *testing.B, instances ...string) *measured {
	b.Helper()
	m := &measured{B: b, server: bustest.Server(b, busembed.Config{Listen: true})}
	m.bus = m.open()
	var err error
	m.plugins, err = external.New(external.Config{Bus: m.bus, Plugins: []external.Plugin{{Name: "measured"}}})
	check(b, err)
	check(b, m.plugins.Start(b.Context()))
	b.Cleanup(m.plugins.Stop)
	m.stacks, err = plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: m.plugins.Factories()})
	check(b, err)
	n, err := workers.NewNode(workers.Config{
		Bus: m.bus, Plugins: m.stacks, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(m.answer)},
	})
	check(b, err)
	check(b, n.Start(b.Context()))
	b.Cleanup(func() { n.Stop(context.Background()) })
	m.host = n.Host()
	for _, id := range instances {
		m.program(id)
	}
	return m
}

// open connects over TCP, as another process does.
func (m *measured) open() *bus.Bus {
	m.Helper()
	on, err := bus.Open(m.Context(), bus.Config{URL: m.server.URL()})
	check(m.B, err)
	m.Cleanup(on.Close)
	return on
}

// program starts an instance, and returns when the node knows it.
func (m *measured) program(instance string) *exec.Cmd {
	m.Helper()
	cmd := own(context.Background())
	cmd.Env = append(os.Environ(), serverVariable+"="+m.server.URL(), instanceVariable+"="+instance, benchVariable+"=1", "LASH_PLUGIN=measured")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(m.B, err)
	check(m.B, cmd.Start())
	m.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		m.Fatalf("program: got %q, %v, want ready", line, err)
	}
	bustest.Eventually(m.B, instance+" is known", func() bool {
		return slices.ContainsFunc(m.plugins.Status()[0].Instances, func(i api.PluginInstance) bool { return nameOf(i.ID) == instance })
	})
	return cmd
}

// workload is a turn: its replies have calls of one tool, then one ends it.
type workload struct {
	tool, args string
	calls      int                   // in each reply
	replies    int                   // with calls
	between    func(*workload) error // before each reply; nil: nothing

	asked time.Time
	took  []time.Duration // from a reply with calls to the model's next request, by reply
	runs  map[string]int  // calls by instance
}

// answer is the model. The requests of one session come one after the other.
func (m *measured) answer(_ context.Context, req llm.Request) (scripted.Answer, error) {
	now := time.Now()
	v, _ := m.loads.Load(req.Session)
	w := v.(*workload)
	if req.Iteration > 0 {
		w.took = append(w.took, now.Sub(w.asked))
		for _, p := range req.Messages[len(req.Messages)-1].Parts {
			w.runs[p.Text]++
		}
	}
	var err error
	if w.between != nil {
		err = w.between(w)
	}
	parts := []events.Part{harness.Text("done")}
	if int(req.Iteration) < w.replies {
		parts = nil
		for n := range w.calls {
			parts = append(parts, harness.Call(events.CallID(fmt.Sprint("k", n)), w.tool, w.args))
		}
	}
	w.asked = time.Now()
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}}, err
}

// session creates a session that has a workload in its turn.
func (m *measured) session(w *workload) events.SessionID {
	m.Helper()
	id, err := m.host.Create(m.Context(), api.CreateRequest{})
	check(m.B, err)
	w.runs = make(map[string]int)
	m.loads.Store(id, w)
	return id
}

// turn runs a session's turn. An error says that a call has no result of an instance, too.
func (m *measured) turn(id events.SessionID) error {
	r, err := m.host.Run(m.Context(), id, harness.TurnRequest("", "go"))
	if err != nil {
		return err
	}
	v, _ := m.loads.Load(id)
	w, sum := v.(*workload), 0
	for instance, n := range w.runs {
		if !strings.HasPrefix(instance, "i") {
			return errors.New(instance)
		}
		sum += n
	}
	if want := w.calls * w.replies; r.End != events.EndFinished || sum != want {
		return fmt.Errorf("turn: got %s with %d results, want finished with %d", r.End, sum, want)
	}
	return nil
}

// run runs a turn of a new session, and returns that.
func (m *measured) run(w *workload) events.SessionID {
	m.Helper()
	id := m.session(w)
	check(m.B, m.turn(id))
	return id
}

// raw is a request of the size of a call, answered by the process of an instance.
func (m *measured) raw(instance string) error {
	_, err := m.bus.Conn().Request("raw."+instance, make([]byte, 200), time.Minute)
	return err
}

// goal reports a figure, and fails the benchmark where that is above the goal.
func (m *measured) goal(unit string, got, most float64) {
	m.Helper()
	m.ReportMetric(got, unit)
	if got > most {
		m.Errorf("%s: got %.3g, want at most %.3g", unit, got, most)
	}
}

// p50 is the median in µs.
func p50(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2]) / float64(time.Microsecond)
}

func check(b *testing.B, err error) {
	b.Helper()
	runtest.NoError(b, err)
}
