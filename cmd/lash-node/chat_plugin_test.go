package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
)

// evil is a plugin whose every text acts on a terminal.
func evil() plugin.Factory {
	image := events.Part{Kind: events.PartAttachment, MediaType: "image/" + hostile, Text: "eA=="}
	return plugin.Func("evil", func(r *plugin.Registrar) error {
		add := func(name string, run func(plugin.Call) (plugin.Result, error)) {
			plugin.AddTool(r, plugin.Tool{Name: name, Description: strings.ToValidUTF8(hostile, ""), Effects: events.EffectsNone},
				func(_ context.Context, call plugin.Call, _ struct{}) (plugin.Result, error) { return run(call) })
		}
		add("text", func(plugin.Call) (plugin.Result, error) { return plugin.Result{Text: hostile}, nil })
		add("fails", func(plugin.Call) (plugin.Result, error) {
			return plugin.Result{}, &plugin.Failure{Class: plugin.ClassExternal, Code: hostile, Message: hostile}
		})
		add("classless", func(plugin.Call) (plugin.Result, error) {
			return plugin.Result{}, &plugin.Failure{Class: hostile, Code: hostile, Message: hostile}
		})
		add("prints", func(call plugin.Call) (plugin.Result, error) {
			call.Output(hostile, hostile)
			call.Output(plugin.StreamStdout, hostile)
			return plugin.Result{Text: hostile}, nil
		})
		add("picture", func(plugin.Call) (plugin.Result, error) {
			return plugin.Result{Text: hostile, Attachments: []events.Part{image}}, nil
		})
		add("aborted", func(plugin.Call) (plugin.Result, error) { return plugin.Result{}, nil })
		add("answered", func(plugin.Call) (plugin.Result, error) { return plugin.Result{}, nil })
		add("asked", func(plugin.Call) (plugin.Result, error) { return plugin.Result{Text: hostile}, nil })
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			text, err := json.Marshal(hostile)
			list := []plugin.Directive{plugin.Emit(text), plugin.Trace("hostile", text)}
			switch in.Tool {
			case "aborted":
				list = append(list, plugin.Abort(hostile, hostile))
			case "answered":
				list = append(list, plugin.ShortCircuit(plugin.Result{Text: hostile}))
			case "asked":
				list = append(list, plugin.Ask(hostile))
			}
			return list, err
		})
		return nil
	})
}

// TestLongPluginTextsAreEscaped runs the calls of a plugin whose texts act on a terminal: results, failures, output,
// attachments, directives and questions. A chat in a terminal, one that joins later, one in a pipe, and the list of
// plugins display them.
func TestLongPluginTextsAreEscaped(t *testing.T) {
	t.Parallel()
	store, settings := filepath.Join(t.TempDir(), "st"), filepath.Join(t.TempDir(), "plugins.json")
	runtest.NoError(t, os.WriteFile(settings, []byte(`{"plugins": [{"name": "evil"}]}`), 0o600))
	node := serveModel(t, newScriptedModel(t).url, "--store", store, "--listen", "127.0.0.1:0", "--set", "external-plugins="+settings)
	defer node.stop(t, syscall.SIGTERM)
	conn, err := remote.Connect(filepath.Join(store, "plugins", "evil.json"))
	runtest.NoError(t, err)
	defer conn.Close()
	i, err := remote.Start(limited(t), remote.Config{Conn: conn, Plugin: evil(), Version: "1" + strings.ToValidUTF8(hostile, "")})
	runtest.NoError(t, err)
	defer func() { _ = i.Stop(context.Background()) }() // on a node that ends
	tools := []string{"text", "fails", "classless", "prints", "aborted", "answered", "asked"}
	ann := sit(t, nil, "--store", store)
	id := ann.session()
	for _, tool := range tools {
		ann.send("call " + tool)
		if tool == "asked" {
			ann.await("asked", `\u001b[2J`)
			ann.types("y\r")
		}
		ann.await("the tool said", `[2J`)
	}
	ann.send("call picture") // its type is refused
	ann.await("the tool said", `[2J`)
	ann.quit(ctrlD, exitOK)
	bob := sit(t, nil, "--store", store, "--session", id)
	bob.await("the tool said", `[2J`)
	bob.quit(ctrlC+ctrlC, exitOK)
	for _, s := range []*chatTerminal{ann, bob} {
		for _, raw := range []string{"\x1b]0;t", "\x1b[2J\x1b]", "\u009b", "\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\U000e0041", "\xff"} {
			if strings.Contains(s.output(), raw) {
				t.Errorf("terminal: got %q", raw)
			}
		}
	}
	out, errs, _ := pipeInto(t, "call "+strings.Join(tools, "\ncall ")+"\ncall picture\n", "--store", store)
	list, more, _ := lashNode(t, "plugins", "--store", store)
	for name, text := range map[string]string{"pipe": out, "pipe's errors": errs, "plugins": list, "plugins' errors": more} {
		for _, r := range text {
			if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf) {
				t.Errorf("%s: got U+%04X", name, r)
				break
			}
		}
	}
	if n := strings.Count(out+errs, `[2J`); n < len(tools) {
		t.Errorf("pipe: got %d hostile texts in %q, want one of each tool", n, fmt.Sprint(out, errs))
	}
	runtest.Contains(t, "plugins", list, `\u001b[2J`)
}
