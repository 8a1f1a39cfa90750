package system

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// misbehaves is a hook other than those that return directives. do fails in one of three ways; bad, if any, is an
// invalid result of such a hook.
type misbehaves struct {
	name     string
	register func(r *plugin.Registrar, do func() error)
	bad      map[string]func(r *plugin.Registrar)
	end      events.TurnEnd
	issue    string // kind and code
	calls    int    // of the model
}

var wideEvent = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)

// manyMessages replaces the messages by many small ones.
func manyMessages() []events.Message {
	list := make([]events.Message, 20000)
	for i := range list {
		list[i] = plugin.Say(events.RoleUser, "once more")
	}
	return list
}

func transformsTo(list ...events.Message) func(*plugin.Registrar) {
	return func(r *plugin.Registrar) {
		r.TransformContext(1, func(context.Context, plugin.TransformContext, plugin.Prepared) (plugin.Prepared, error) {
			return plugin.Prepared{Messages: list}, nil
		})
	}
}

func contributes(c events.Contribution) func(*plugin.Registrar) {
	return func(r *plugin.Registrar) {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
			return []events.Contribution{c}, nil
		})
	}
}

func showsInStream(e json.RawMessage) func(*plugin.Registrar) {
	return func(r *plugin.Registrar) {
		r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
			return plugin.StreamTransform{Chunk: chunk, Events: []json.RawMessage{e}}, nil
		})
	}
}

func respondsWith(e json.RawMessage, parts ...events.Part) func(*plugin.Registrar) {
	return func(r *plugin.Registrar) {
		r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			got.Parts = append(got.Parts, parts...)
			return got, []json.RawMessage{e}, nil
		})
	}
}

func failsAtLifecycle(kind plugin.LifecycleKind) misbehaves {
	return misbehaves{"lifecycle_" + string(kind), func(r *plugin.Registrar, do func() error) {
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			if e.Kind == kind {
				return do()
			}
			return nil
		})
	}, nil, events.EndFinished, "/", 1}
}

func misbehaving() []misbehaves {
	return []misbehaves{
		{"context_transform", func(r *plugin.Registrar, do func() error) {
			r.TransformContext(1, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
				return now, do()
			})
		}, map[string]func(*plugin.Registrar){
			"stranger": transformsTo(events.Message{Role: "stranger"}), "flood": transformsTo(manyMessages()...),
		}, events.EndFailed, "plugin/context_prepare_turn", 0},
		{"prompt", func(r *plugin.Registrar, do func() error) {
			r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return nil, do() })
		}, map[string]func(*plugin.Registrar){
			"slot": contributes(events.Contribution{Slot: "nowhere", Content: "x"}), "wide": contributes(events.Contribution{Slot: events.SlotIntro, Content: string(wideEvent)}),
		}, events.EndRuntimeError, "plugin_prompt/", 0},
		{"stream", func(r *plugin.Registrar, do func() error) {
			r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
				return plugin.StreamTransform{Chunk: chunk}, do()
			})
		}, map[string]func(*plugin.Registrar){
			"no_json": showsInStream(json.RawMessage(`{`)), "wide": showsInStream(wideEvent),
		}, events.EndProviderError, "provider/plugin_assistant_stream", 1},
		{"response", func(r *plugin.Registrar, do func() error) {
			r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
				return got, nil, do()
			})
		}, map[string]func(*plugin.Registrar){
			"no_json": respondsWith(json.RawMessage(`{`)), "wide": respondsWith(wideEvent), "part": respondsWith(json.RawMessage(`1`), events.Part{Kind: "smell"}),
		}, events.EndProviderError, "provider/plugin_assistant_response", 1},
		{"stream_end", func(r *plugin.Registrar, do func() error) {
			r.StreamEnd(func(context.Context, events.SessionID, plugin.StreamEnd) { _ = do() })
		}, nil, events.EndFinished, "/", 1},
		failsAtLifecycle(plugin.TurnFinalized), failsAtLifecycle(plugin.TurnPersisted), failsAtLifecycle(plugin.SessionRestored),
		{"catalog", func(r *plugin.Registrar, do func() error) {
			r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
				return plugin.CatalogContribution{}, do()
			})
		}, map[string]func(*plugin.Registrar){"level": func(r *plugin.Registrar) {
			r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
				return plugin.CatalogContribution{Levels: map[string]events.Availability{"look": "sort_of"}}, nil
			})
		}}, events.EndFailed, "plugin/tool_catalog", 0},
		{"protocol", func(r *plugin.Registrar, do func() error) {
			r.Protocol(harness.Protocol{Before: func(plugin.ModelCallContext) (*events.FrameSwitch, error) { return nil, do() }})
			r.Driver(harness.Protocol{})
		}, map[string]func(*plugin.Registrar){"switch": func(r *plugin.Registrar) {
			r.Protocol(harness.Protocol{Before: func(plugin.ModelCallContext) (*events.FrameSwitch, error) { return &events.FrameSwitch{}, nil }})
			r.Driver(harness.Protocol{})
		}}, events.EndFailed, "protocol/protocol_before_llm_call", 0},
	}
}

// run has the plugin in a turn, and checks the turn's outcome and reason.
func (m *misbehaves) run(t *testing.T, shortTimeout bool, text string, register func(*plugin.Registrar)) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	id := b.Open(api.CreateRequest{})
	name := "bad"
	if m.name == "protocol" {
		name = "standard"
	}
	if bad := harness.PluginOf(name, register); shortTimeout {
		impatient(b, bad)
	} else {
		b.StartNode(bad)
	}
	b.Host = b.OtherHost() // without plugins, so that turns are theirs to end
	b.StartTurn(id, "t1", harness.Text("go"))
	got := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", got.End, m.end)
	runtest.Equal(t, "issue", got.Issue.Kind+"/"+got.Issue.Code, m.issue)
	runtest.Equal(t, "why", strings.Contains(got.Issue.Message, text), m.end != events.EndFinished)
	runtest.Equal(t, "model calls", len(b.Model.Requests()), m.calls)
	if m.end == events.EndFinished {
		runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant done"})
	}
	if m.end == events.EndFailed {
		b.WantNoEffects(id)
	}
}

// TestFailingReplyHookIsContained has the hooks around replies, prompts and sessions fail.
func TestFailingReplyHookIsContained(t *testing.T) {
	t.Parallel()
	for _, m := range misbehaving() {
		for _, f := range waysToFail() {
			if f.name == "hang" && m.name == "protocol" {
				continue // it has a model's time
			}
			t.Run(m.name+"_"+f.name, func(t *testing.T) {
				m.run(t, f.name == "hang", f.text, func(r *plugin.Registrar) {
					m.register(r, func() error { _, err := f.do(t); return err })
				})
			})
		}
		for name, register := range m.bad {
			t.Run(m.name+"_"+name, func(t *testing.T) { m.run(t, false, "", register) })
		}
	}
}

// TestFailingHostHookIsContained has the hooks of the operations of hosts fail.
func TestFailingHostHookIsContained(t *testing.T) {
	t.Parallel()
	for _, f := range waysToFail() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			do := func() error { _, err := f.do(t); return err }
			var requests atomic.Int64
			bad := harness.PluginOf("bad", func(r *plugin.Registrar) {
				r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
					now.Model = "none"
					return now, do()
				})
				r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
					if e.Kind != plugin.SessionConfigChanged {
						return nil
					}
					requests.Add(1)
					return do()
				})
				r.Action(plugin.ActionDef{Name: "act"}, func(context.Context, plugin.ActionContext, json.RawMessage) (plugin.Result, error) {
					return plugin.Result{Text: "acted"}, do()
				})
				if f.name != "hang" { // compactors have a model's time
					r.Compact(1, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
						return plugin.Compaction{}, do()
					})
				}
			})
			if f.name == "hang" {
				impatient(b, bad)
			} else {
				b.StartNode(bad)
			}
			id := b.Open(api.CreateRequest{})
			err := b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "new"; return c }})
			runtest.WantError(t, "configure", err, nil)
			runtest.Equal(t, "model", b.StateOf(id).Config.Model, "new")
			b.AwaitState(id, "that plugins were notified", harness.AllNotified)
			runtest.Equal(t, "notified", requests.Load(), 1)
			check := func(what string, err error) {
				t.Helper()
				if err == nil || !strings.Contains(err.Error(), f.text) {
					t.Errorf("%s: got %v, want %q in it", what, err, f.text)
				}
			}
			if f.name != "hang" { // an action has its caller's time
				_, err = b.InvokeAction(b.Ctx, id, "act", json.RawMessage(`{}`))
				check("action", err)
				_, err = b.Compact(b.Ctx, id)
				check("compact", err)
			}
		})
	}
}

// TestContainedProjector has the projector of results fail: the model reads the reason, and the record is
// unchanged.
func TestContainedProjector(t *testing.T) {
	t.Parallel()
	for _, f := range append(waysToFail(), fault{"garbage", "smell", nil}) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done")))
			var runs atomic.Int64
			bad := harness.PluginOf("bad", func(r *plugin.Registrar) {
				r.ProjectToolResult(func(context.Context, plugin.ToolResultContext) (plugin.View, error) {
					if f.do == nil {
						return plugin.View{Text: "shown", Attachments: []events.Part{{Kind: "smell"}}}, nil
					}
					_, err := f.do(t)
					return plugin.View{Text: "shown"}, err
				})
			})
			if f.name == "hang" {
				impatient(b, bad, harness.CountingTools(&runs, "look"))
			} else {
				b.StartNode(bad, harness.CountingTools(&runs, "look"))
			}
			id := b.Open(api.CreateRequest{})
			runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
			r := b.ResultsByPosition(id)[0]
			runtest.Equal(t, "outcome", r.Outcome, events.OutcomeSuccess)
			runtest.Equal(t, "record", r.Full, "was look")
			if !strings.Contains(b.Model.Prompt(1)[2], f.text) {
				t.Errorf("what the model reads: got %q, want %q in it", b.Model.Prompt(1)[2], f.text)
			}
		})
	}
}
