package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/recheck"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// decides is a plugin that decides something at each hook point. The zero value decides nothing.
type decides struct {
	prompt, before, model, args, checkpoint, after string
	child                                          bool // creates a session before the turn
	asks                                           bool // asks the model before the turn
	ran                                            *atomic.Int64
}

func (d decides) factory() plugin.Factory {
	return plugin.Func("decides", func(r *plugin.Registrar) error {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{{Slot: events.SlotGuidance, Content: d.prompt}}, nil
		})
		r.BeforeTurn(func(context.Context, plugin.TurnContext) (list []plugin.Directive, err error) {
			if d.child {
				list = append(list, plugin.CreateSession(api.CreateRequest{}))
			}
			return append(list, emitted(d.before)), err
		})
		r.TransformContext(0, func(ctx context.Context, in plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			if d.asks {
				_, err := in.Host.Complete(ctx, plugin.CompletionRequest{Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "?"}}}}}, "decides")
				return now, err
			}
			return now, nil
		})
		r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Contribute(events.Contribution{Slot: events.SlotGuidance, Content: d.model})}, nil
		})
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(d.args))}, nil
		})
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) {
			return []plugin.Directive{emitted(d.checkpoint)}, nil
		})
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{emitted(d.after)}, nil
		})
		set := plugin.NewTools()
		plugin.AddTool(set, plugin.Tool{Name: "count", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{ N int }) (string, error) {
			d.ran.Add(1)
			return "counted", nil
		})
		return r.Tools(set)
	})
}

func emitted(text string) plugin.Directive {
	body, _ := json.Marshal(text) // a text encodes
	return plugin.Emit(body)
}

// TestCheck records a session of a plugin that decides at each point, and checks it with the same plugin, and with one that
// decides otherwise at one point. No tool runs and no model is asked while a session is checked.
func TestCheck(t *testing.T) {
	t.Parallel()
	var ran, asked atomic.Int64
	url := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		asked.Add(1)
		if len(llmtest.Results(req)) == 0 {
			return llmtest.Calls(events.Part{Call: "x", Tool: "count", Args: []byte(`{"N":1}`)})
		}
		return llmtest.Text("done")
	})
	recorded := decides{prompt: "p", before: "b", model: "m", args: `{"N":2}`, checkpoint: "c", after: "a", child: true, ran: &ran}
	file, points := record(t, url, Config{Plugins: []plugin.Factory{recorded.factory()}}, PluginFlags{Plugins: []string{"default"}})
	calls, answers := ran.Load(), asked.Load()
	if calls != 2 || answers != 4 || points < 5 { // of two sessions
		t.Fatalf("recorded: got %d calls, %d model calls, hooks at %d points", calls, answers, points)
	}
	with := func(change func(*decides)) decides {
		d := recorded
		change(&d)
		return d
	}
	for name, tc := range map[string]struct {
		with  decides
		kind  events.Kind // of the recorded event that differs; empty: none
		input string
	}{
		"same":       {with(func(*decides) {}), "", ""},
		"prompt":     {with(func(d *decides) { d.prompt = "other" }), events.KindTurnPrepared, "hooks of before_turn"},
		"before":     {with(func(d *decides) { d.before = "other" }), events.KindHookRan, "hooks of before_turn"},
		"model":      {with(func(d *decides) { d.model = "other" }), events.KindHookRan, "hooks of before_model_call"},
		"child":      {with(func(d *decides) { d.child = false }), events.KindHookRan, "hooks of before_turn"},
		"arguments":  {with(func(d *decides) { d.args = `{"N":3}` }), events.KindHookRan, "hooks of before_tool_call"},
		"checkpoint": {with(func(d *decides) { d.checkpoint = "other" }), events.KindHookRan, "hooks of checkpoint"},
		"after":      {with(func(d *decides) { d.after = "other" }), events.KindHookRan, "hooks of after_turn"},
	} {
		t.Run(name, func(t *testing.T) {
			r, code := checked(t, Config{Plugins: []plugin.Factory{tc.with.factory()}}, file)
			if ran.Load() != calls || asked.Load() != answers {
				t.Errorf("effects: got %d calls and %d model calls more, want none", ran.Load()-calls, asked.Load()-answers)
			}
			one := r.Results[0]
			if tc.kind == "" {
				if code != program.OK || one.Difference != nil || one.Problem != "" || one.Hooks != points || len(r.Skipped) > 0 {
					t.Errorf("got code %d, %+v, %s, want no difference, and hooks at %d points", code, one, r.Text(), points)
				}
				return
			}
			if d := one.Difference; code != program.Different || d == nil || d.Recorded == nil || d.Recorded.Kind != tc.kind || d.Input != tc.input {
				t.Errorf("got code %d, %s, want %s after %s", code, one.Text(), tc.kind, tc.input)
			}
		})
	}
	t.Run("without_the_plugin", func(t *testing.T) {
		r, _ := checked(t, Config{}, file)
		if r.Skipped[`this program has no plugin "decides"`] == 0 {
			t.Errorf("got %s, want points that are not compared", r.Text())
		}
	})
	t.Run("asks_a_model", func(t *testing.T) {
		asks := with(func(d *decides) { d.asks = true })
		r, _ := checked(t, Config{Plugins: []plugin.Factory{asks.factory()}}, file)
		if r.Skipped["a hook asks a model"] != 1 || asked.Load() != answers {
			t.Errorf("got %s, %d model calls more, want one point that is not compared", r.Text(), asked.Load()-answers)
		}
	})
	t.Run("redacted", func(t *testing.T) {
		r, code := checked(t, Config{Plugins: []plugin.Factory{recorded.factory()}}, filepath.Join(filepath.Dir(file), "redacted.lash"))
		one := r.Results[0]
		if code != program.OK || r.Redacted != 1 || one.Redacted == 0 || one.Absent != events.KindModelReplied || one.Problem != "" || one.Hooks == 0 || one.Hooks >= points {
			t.Errorf("got code %d, %+v, %s, want hooks that are compared up to the redacted reply", code, one, r.Text())
		}
		redacted := filepath.Join(filepath.Dir(file), "redacted.lash")
		if r, code := checked(t, Config{Plugins: []plugin.Factory{recorded.factory()}}, redacted, "--whole"); code != program.Different || r.Problems != 1 {
			t.Errorf("--whole: got code %d, %s, want a session that cannot be checked", code, r.Text())
		}
		other := with(func(d *decides) { d.before = "other" })
		if r, code := checked(t, Config{Plugins: []plugin.Factory{other.factory()}}, filepath.Dir(file)); code != program.Different || r.Differences != 2 || r.Redacted != 0 {
			t.Errorf("another hook: got code %d, %s, want a difference in both archives of the folder", code, r.Text())
		}
		junit := filepath.Join(t.TempDir(), "junit.xml")
		if _, code := checked(t, Config{Plugins: []plugin.Factory{recorded.factory()}}, filepath.Dir(file), "--junit", junit); code != program.OK {
			t.Errorf("folder: got code %d, want %d", code, program.OK)
		}
		if report, err := os.ReadFile(junit); err != nil || !strings.Contains(string(report), `tests="2" failures="0" errors="0" skipped="1"`) {
			t.Errorf("folder: got %s, %v, want one skipped", report, err)
		}
	})
	t.Run("report", func(t *testing.T) {
		junit := filepath.Join(t.TempDir(), "junit.xml")
		other := with(func(d *decides) { d.after = "other" })
		if _, code := checked(t, Config{Plugins: []plugin.Factory{other.factory()}}, file, "--junit", junit); code != program.Different {
			t.Errorf("code: got %d", code)
		}
		data, err := os.ReadFile(junit) //nolint:gosec // a file of the test
		if err != nil || !strings.Contains(string(data), "hooks of after_turn") || !strings.Contains(string(data), `failures="1"`) {
			t.Errorf("JUnit: got %s, %v", data, err)
		}
	})
}

// TestCheckRules checks a session of the shipped plugins with the rules of its node, and with a rule that forbids its call.
func TestCheckRules(t *testing.T) {
	t.Parallel()
	url := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if len(llmtest.Results(req)) == 0 {
			return llmtest.Calls(
				events.Part{Call: "x", Tool: "write_file", Args: []byte(`{"path":"note","content":"milk"}`)},
				events.Part{Call: "y", Tool: "update_todo", Args: []byte(`{"items":[{"text":"milk","status":"done"}]}`)},
			)
		}
		return llmtest.Text("done")
	})
	root := t.TempDir()
	file, points := record(t, url, Config{}, PluginFlags{Plugins: []string{"default", "files"}, Root: root, Allow: []string{"write_file"}})
	flags := []string{file, "--plugins", "default,files", "--root", root}
	if r, code := checked(t, Config{}, append(flags, "--allow", "write_file")...); code != program.OK || r.Hooks != points || points == 0 {
		t.Errorf("same rules: got code %d, %s, want hooks at %d points and no difference", code, r.Results[0].Text(), points)
	}
	r, code := checked(t, Config{}, append(flags, "--deny", "write_file")...)
	if d := r.Results[0].Difference; code != program.Different || d == nil || d.Input != "hooks of before_tool_call" {
		t.Errorf("another rule: got code %d, %s, want a difference before the call", code, r.Results[0].Text())
	}
}

// record runs a turn on a node with the plugins, and writes the archive of its session. points is the number of points at which
// the history has decisions of hooks.
func record(t *testing.T, url string, cfg Config, flags PluginFlags) (file string, points int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := &program.Streams{Out: new(bytes.Buffer), Err: new(bytes.Buffer), Env: func(name string) string {
		if name == "OPENAI_BASE_URL" {
			return url
		}
		return ""
	}}
	node, err := Start(ctx, s, cfg, func(c *Command) {
		c.Store, c.Listen, c.Model, c.PluginFlags = t.TempDir(), "127.0.0.1:0", "m", flags
	})
	runtest.NoError(t, err)
	defer node.Stop()
	for _, id := range []events.SessionID{"s", "redacted"} {
		_, err = node.Host().Create(ctx, api.CreateRequest{ID: id})
		runtest.NoError(t, err)
		turn, err := node.Host().Run(ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
		if err != nil || turn.End != events.EndFinished {
			t.Fatalf("turn: got %+v, %v", turn, err)
		}
	}
	for entry, err := range node.bus.Log().Read(ctx, "s", 1) {
		runtest.NoError(t, err)
		for i := range entry.Commit.Events {
			if p, ok := entry.Commit.Events[i].Payload.(*events.HookRan); ok && p.Point != events.PointAfterTool && p.Point != events.PointReply {
				points++
			}
		}
	}
	log := node.bus.Log()
	// The last reply: the first one may be in the same commit as the hooks before it.
	replies := archive.Redacted(log, func(e events.Entry, i int) bool {
		reply, ok := e.Commit.Events[i].Payload.(*events.ModelReplied)
		return ok && reply.Stop == events.StopEnd
	})
	dir := t.TempDir()
	for id, log := range map[events.SessionID]events.Log{"s": log, "redacted": replies} {
		var archived bytes.Buffer
		_, err = archive.Write(ctx, log, node.bus, id, &archived)
		runtest.NoError(t, err)
		runtest.NoError(t, os.WriteFile(filepath.Join(dir, string(id)+".lash"), archived.Bytes(), 0o600))
	}
	file = filepath.Join(dir, "s.lash")
	return file, points
}

// checked runs the command of a program.
func checked(t *testing.T, cfg Config, args ...string) (r recheck.Report, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cfg.checkCLI("own").Run(t.Context(), append([]string{"--json"}, args...), &program.Streams{Out: &out, Err: &errs, Env: func(string) string { return "" }})
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || len(r.Results) == 0 {
		t.Fatalf("check: got code %d, %s%s, %v", code, out.String(), errs.String(), err)
	}
	return r, code
}
