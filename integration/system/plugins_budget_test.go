package system

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/budget"
)

// counted is lines, each with its number.
func counted(from, upto int) string {
	var b strings.Builder
	for i := from; i <= upto; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func lister() plugin.Factory {
	return plugin.Func("lister", func(r *plugin.Registrar) error {
		list := func(_ context.Context, _ plugin.Call, in struct {
			N int `json:"n"`
		},
		) (string, error) {
			return counted(1, in.N), nil
		}
		plugin.AddTool(r, plugin.Tool{Name: "list", Effects: events.EffectsNone}, list)
		plugin.AddTool(r, plugin.Tool{Name: "log", Effects: events.EffectsNone}, list)
		plugin.AddTool(r, plugin.Tool{Name: "blob", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
			return strings.Repeat("ü", 50<<10), nil
		})
		return nil
	})
}

// TestBudget shows the beginning or the end of long outputs, stores all of them, and reads the rest.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "list", `{"n":400}`), harness.Call("c2", "list", `{"n":401}`), harness.Call("c3", "log", `{"n":401}`), harness.Call("c4", "list", `{"n":40000}`), harness.Call("c5", "blob", `{}`)),
		harness.Reply(harness.Text("many")),
		harness.Reply(harness.Call("c6", "read_output", `{"output":"t1/0/1","line":401}`), harness.Call("c7", "read_output", `{"output":"t1/0/3","line":39000}`),
			harness.Call("c8", "read_output", `{"output":"t1/0/9"}`), harness.Call("c9", "read_output", `{"output":"t1/0/0"}`), harness.Call("c10", "read_output", `{"output":"t1/0/1","line":402}`)),
		harness.Reply(harness.Text("done")),
	)
	b.StartNode(lister(), budget.Factory(budget.Options{Tail: []string{"log"}}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("list"))
	b.RunTurn(id, "t2", harness.Text("read"))
	for call, want := range map[string]string{
		"c1":  counted(1, 400),
		"c2":  counted(1, 400) + "[lines 1 to 400 of 401, 3501 bytes in all; read_output reads others of output t1/0/1]",
		"c3":  counted(2, 401) + "[lines 2 to 401 of 401, 3501 bytes in all; read_output reads others of output t1/0/2]",
		"c6":  "line 401\n[lines 401 to 401 of 401, 3501 bytes in all; read_output reads others of output t1/0/1]",
		"c7":  counted(39000, 39399) + "[lines 39000 to 39399 of 40000, 428894 bytes in all; read_output reads others of output t1/0/3]",
		"c8":  "[failed] call t1/0/9 of session " + string(id) + ": no such call has returned",
		"c9":  counted(1, 400),
		"c10": "[failed] line 402: the output has 401",
	} {
		if got := b.CallResult(id, call); got != want {
			t.Errorf("%s: got %.60q ... %.120q, want %.60q", call, got, got[max(0, len(got)-120):], want)
		}
	}
	if got := b.CallResult(id, "c5"); len(got) > 17<<10 || !strings.HasSuffix(strings.Split(got, "\n")[0], "ü [the line is cut]") {
		t.Errorf("one long line: got %d bytes, %.100q", len(got), got[len(got)-120:])
	}
	full, err := b.ToolOutput(b.Ctx, id, "t1/0/3")
	if err != nil || full != counted(1, 40000) {
		t.Errorf("whole output: got %d bytes, %v", len(full), err)
	}
}
