package external

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

var (
	faultCalls = flag.Int("calls", runtest.Of(12, 300), "calls that T34 makes in Go on one server; elsewhere it makes a fifth")
	faultSeed  = flag.Uint64("seed", 0, "of the faults of T34; 0: a new one, which is logged")
	unfenced   = flag.Bool("unfenced", false, "T34 has nodes that do not look at the instance that the history names: it fails")
)

var faultCases = []serviceCase{
	{"T34_faults_at_random_double_no_call", faultsAtRandom},
	{"T34b_without_the_recorded_holder_a_call_is_doubled", faultsWithoutHolder},
}

// faultsAtRandom kills and freezes programs and stops nodes while calls run. Each call has one result. A call that must
// not run twice runs at most once, and what its result says of it is true.
func faultsAtRandom(t *testing.T, on place) {
	n := on.fewer(*faultCalls)
	var wrap func(plugin.Factory) plugin.Factory
	if *unfenced {
		wrap = anyInstance
	}
	f := startFaults(t, on, wrap)
	f.killHolderAndNode()
	f.disturb(n)
	if found := f.audit(n); len(found) > 0 {
		t.Errorf("calls:\n%s", strings.Join(found, "\n"))
	}
}

// faultsWithoutHolder is the same with nodes that send every call to an instance that lives, and not to the one that the
// history names: the audit finds a call that ran twice.
func faultsWithoutHolder(t *testing.T, on place) {
	f := startFaults(t, on, anyInstance)
	f.killHolderAndNode()
	if found := f.audit(0); !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, "ran 2 times") }) {
		t.Errorf("doubled calls: got %q, want one that ran twice", found)
	}
}

// TestFaultsWithoutHolder runs T34 itself with nodes that do not look at the instance that the history names. It fails, and
// names a call that ran twice.
func TestFaultsWithoutHolder(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(harness.ContextFor(t, 5*time.Minute), os.Args[0], "-test.run", "^TestSmokePluginService$/^T34_", "-calls", "12", "-unfenced") //nolint:gosec // this test binary
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), "must not run twice, and ran 2 times") {
		t.Errorf("got %v, %s\nwant it to fail for a call that ran twice", err, out)
	}
}

// anyInstance is a plugin whose calls ignore the instance that the history names.
func anyInstance(f plugin.Factory) plugin.Factory {
	return plugin.Func(f.ID(), func(r *plugin.Registrar) error {
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{f}})
		if err != nil {
			return err
		}
		stack, err := builder.BuildStack(context.Background(), plugin.BuildContext{}, nil)
		if err != nil {
			return err
		}
		changed := plugin.NewTools()
		for _, entry := range stack.Tools().Entries() {
			tool, _ := stack.Tools().Find(entry.Name)
			if tool.Source != f.ID() {
				continue // of the node
			}
			err := changed.Add(tool.Tool, func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
				if call.Holder != "" {
					call.Holder, call.Term = tool.Holder(call.Session, call.Effect)
				}
				return tool.Handler(ctx, call, args)
			})
			if err != nil {
				return err
			}
		}
		return r.Tools(changed)
	})
}

// faults is a system whose programs and nodes are disturbed. The first program stays as it is.
type faults struct {
	*setting
	random   *rand.Rand
	programs []*disturbed
	stop     []func() // of each node
	sessions []events.SessionID
}

// disturbed is a program of the plugin that may be killed and frozen.
type disturbed struct {
	*process
	name string    // of the instance
	runs int       // of this program, so far
	thaw time.Time // while it is frozen
}

// The calls of a turn of [faults.disturb]: one of each tool in each reply.
const (
	callReplies = 6
	turnCalls   = 2 * callReplies
)

func startFaults(t *testing.T, on place, wrap func(plugin.Factory) plugin.Factory) *faults {
	t.Helper()
	seed := *faultSeed
	if seed == 0 {
		seed = rand.Uint64() //nolint:gosec // it is logged
	}
	t.Logf("-seed %d", seed)
	f := &faults{setting: on.start(t), random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // a seed repeats it
	f.Ctx, f.wrap = harness.ContextFor(t, 3*time.Minute+time.Duration(*faultCalls)*time.Second), wrap
	answer := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return f.reply(req), nil
	}
	f.Model.Script = slices.Repeat([]harness.Step{answer}, 100+20**faultCalls)
	f.stop = []func(){f.node(), f.node()}
	for i := range 3 {
		p := &disturbed{name: fmt.Sprint("i", i)}
		f.programs = append(f.programs, p)
		f.restart(p)
	}
	f.alive(3)
	return f
}

// firstTurn is the turn of the first session. All others have the name t1.
const firstTurn = "t0"

// reply is one call for the first turn, and both calls of each reply for the others.
func (f *faults) reply(req llm.Request) scripted.Answer {
	var parts []events.Part
	stop := events.StopToolUse
	switch first := req.Turn == firstTurn; {
	case first && req.Iteration == 0:
		parts = []events.Part{harness.Call("write0", "write", `{"text":"milk","hold":true}`)}
	case !first && req.Iteration < callReplies:
		for _, tool := range []string{"write", "look"} {
			id := fmt.Sprint(tool, req.Iteration)
			parts = append(parts, harness.Call(events.CallID(id), tool, fmt.Sprintf(`{"text":%q,"millis":%d}`, id, 200+100*req.Iteration)))
		}
	default:
		parts, stop = []events.Part{harness.Text("done")}, events.StopEnd
	}
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: stop}}
}

// killHolderAndNode stops both nodes while the first call runs, which must not run twice, and kills the instance that
// runs it, before other nodes start.
func (f *faults) killHolderAndNode() {
	f.T.Helper()
	f.sessions = append(f.sessions, f.Open(api.CreateRequest{}))
	f.StartTurn(f.sessions[0], firstTurn, harness.Text("note it"))
	holder := strings.Fields(f.logged("began", 1)[0])[2]
	for _, stop := range f.stop {
		stop()
	}
	for _, p := range f.programs {
		if p.instance() == holder {
			p.kill()
		}
	}
	f.release()
	f.stop = []func(){f.node(), f.node()}
	f.AwaitTurn(f.sessions[0], firstTurn)
	for _, p := range f.programs {
		if p.instance() == holder {
			f.restart(p)
		}
	}
}

func (p *disturbed) instance() string { return fmt.Sprintf("%s-%d", p.name, p.runs) }

// restart starts a program as a new instance.
func (f *faults) restart(p *disturbed) {
	f.T.Helper()
	p.runs++
	p.process, p.thaw = f.spawn(p.instance(), f.command()), time.Time{}
}

// replaceNode starts a node, and stops another one in the middle of its work.
func (f *faults) replaceNode(i int) {
	f.T.Helper()
	old := f.stop[i]
	f.stop[i] = f.node()
	old()
}

// disturb runs n calls, and disturbs programs and nodes until all turns have ended.
func (f *faults) disturb(n int) {
	f.T.Helper()
	for range (n + turnCalls - 1) / turnCalls {
		f.sessions = append(f.sessions, f.Open(api.CreateRequest{}))
	}
	for _, id := range f.sessions[1:] {
		f.StartTurn(id, "t1", harness.Text("note it"))
	}
	count := make(map[string]int)
	for !f.ended() {
		p := f.programs[1+f.random.IntN(2)]
		switch fault := f.random.IntN(5); {
		case fault == 0:
			f.replaceNode(f.random.IntN(2))
			count["nodes stopped"]++
		case fault < 3 || !p.thaw.IsZero():
			p.kill()
			f.restart(p)
			count["programs killed"]++
		default:
			p.signal(syscall.SIGSTOP)
			p.thaw = time.Now().Add(time.Duration(500+f.random.IntN(4000)) * time.Millisecond)
			count["programs frozen"]++
		}
		next := f.began() + 2 + f.random.IntN(6)
		f.AwaitPolling("further runs", func() bool {
			f.thaw(time.Now())
			return f.began() >= next || f.ended()
		})
	}
	f.thaw(time.Now().Add(time.Hour))
	thawed := time.Now()
	f.AwaitPolling("all programs to live", func() bool {
		live := make(map[string]bool)
		for _, i := range f.first.Status()[0].Instances {
			live[nameOf(i.ID)] = i.SilentMS < time.Since(thawed).Milliseconds()
		}
		return !slices.ContainsFunc(f.programs, func(p *disturbed) bool { return !live[p.instance()] })
	})
	f.T.Logf("%d calls, %v", turnCalls*(len(f.sessions)-1), count)
	if len(count) == 0 {
		f.T.Error("faults: got none")
	}
}

// thaw continues the programs whose time is over.
func (f *faults) thaw(now time.Time) {
	f.T.Helper()
	for _, p := range f.programs {
		if !p.thaw.IsZero() && now.After(p.thaw) {
			p.signal(syscall.SIGCONT)
			p.thaw = time.Time{}
		}
	}
}

// ended reports whether all turns have ended.
func (f *faults) ended() bool {
	f.T.Helper()
	for _, id := range f.sessions[1:] {
		if record, err := f.StateOf(id).Record("t1"); err != nil || record == nil {
			return false
		}
	}
	return true
}

// audit compares the histories with the file of runs, and lists what is wrong. n is the number of calls without the
// first.
func (f *faults) audit(n int) (found []string) {
	f.T.Helper()
	data, err := os.ReadFile(f.runs)
	runtest.WantError(f.T, "runs", err, nil)
	began := make(map[string]int) // by session and effect
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); fields[0] == "began" {
			began[fields[3]+" "+fields[1]]++
		}
	}
	results := make(map[string]int)
	for _, id := range f.sessions {
		found = append(found, f.auditSession(id, began, results)...)
	}
	f.T.Logf("results: %v", results)
	if results["all"] < n {
		found = append(found, fmt.Sprintf("%d results, want at least %d", results["all"], n))
	}
	return found
}

// auditSession counts the results of a session, and lists what is wrong with them.
func (f *faults) auditSession(id events.SessionID, began, count map[string]int) (found []string) {
	f.T.Helper()
	wrong := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("session %s: "+format, append([]any{id}, args...)...))
	}
	tools, results := make(map[events.EffectID]string), make(map[events.EffectID]int)
	ended := false
	for _, e := range f.History(id) {
		if ended && e.Turn != "" {
			wrong("%T after the end of the turn", e.Payload)
		}
		switch p := e.Payload.(type) {
		case *events.ModelReplied:
			for i, part := range p.Parts {
				if part.Kind == events.PartToolCall {
					tools[turn.ToolEffect(e.Turn, p.Iteration, int64(i))] = part.Tool
				}
			}
		case *events.ToolReturned:
			for i := range p.Results {
				effect := turn.ToolEffect(e.Turn, p.Iteration, p.Results[i].Call)
				results[effect]++
				kind, ran := kindOf(&p.Results[i]), began[string(id)+" "+string(effect)]
				count[tools[effect]+" "+kind]++
				count["all"]++
				switch {
				case tools[effect] == "write" && ran > 1:
					wrong("%s must not run twice, and ran %d times: %s", effect, ran, kind)
				case tools[effect] == "write" && kind == "unavailable" && ran > 0, kind == "noted" && ran == 0, kind == "other", tools[effect] == "look" && kind == "lost":
					wrong("%s of %s ran %d times: %s: %+v", effect, tools[effect], ran, kind, p.Results[i])
				}
			}
		case *events.TurnCompleted:
			ended = true
		}
	}
	for effect := range tools {
		if results[effect] != 1 {
			wrong("%s has %d results, want 1", effect, results[effect])
		}
	}
	return found
}

// kindOf is what a result says of its call.
func kindOf(r *events.ToolResult) string {
	switch {
	case r.Outcome == events.OutcomeLost:
		return "lost"
	case r.Class == plugin.ClassUnavailable:
		return "unavailable"
	case strings.HasPrefix(r.Text, "noted: "):
		return "noted"
	}
	return "other"
}
