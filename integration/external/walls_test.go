package external

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestHooksChangeOwnToolsOnly has a plugin's hooks replace the arguments and the result of a tool of the node. Without
// the operator's leave the call fails, and the tool does not run.
func TestHooksChangeOwnToolsOnly(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]plugin.Directive{
		"arguments": plugin.ReplaceArgs(json.RawMessage(`{"a":2}`)), "result": plugin.ShortCircuit(plugin.Result{Text: "forged"}),
	} {
		for _, allowed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_allowed_%t", name, allowed), func(t *testing.T) {
				t.Parallel()
				s := start(t, hookedOnce(2)...)
				s.changesOthers = allowed
				var runs atomic.Int64
				s.nodeOf([]string{"p"}, harness.CountingTools(&runs, "own"))
				s.instance(remote.Config{Version: "1", Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
					r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
						return []plugin.Directive{d}, nil
					})
					return nil
				})})
				id := s.begin()
				s.AwaitTurn(id, "t1")
				wantRuns := int64(0)
				if allowed && name == "arguments" {
					wantRuns = 1
				}
				harness.DeepEqual(t, "runs", runs.Load(), wantRuns)
			})
		}
	}
}

// TestManifestsFitTogether registers manifests that are too large: alone, and with that of another plugin. A session's
// turn still runs.
func TestManifestsFitTogether(t *testing.T) {
	t.Parallel()
	s := start(t, harness.Reply(harness.Text("ok")))
	s.nodeOf([]string{"one", "two"})
	c := s.client()
	large := func(tools int) *wire.Registration {
		r := registration("1")
		for i := range tools {
			r.Manifest.Tools = append(r.Manifest.Tools, wire.Tool{Name: fmt.Sprint("t", tools, "x", i), Description: strings.Repeat("d", wire.MaxDescription)})
		}
		return r
	}
	for _, step := range []struct {
		plugin, code string
		tools        int
	}{{"one", wire.CodeTooLarge, 9}, {"one", "", 7}, {"two", wire.CodeTooLarge, 4}, {"two", "", 2}} {
		answer, got := c.request(step.plugin, "register", large(step.tools)), ""
		if answer.Error != nil {
			got = answer.Error.Code
		}
		harness.DeepEqual(t, fmt.Sprintf("%d tools of %s", step.tools, step.plugin), got, step.code)
	}
	id := s.begin()
	s.AwaitTurn(id, "t1")
}
