package system

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/history"
)

// printing has a tool that prints n letters.
func printing() plugin.Factory {
	return plugin.Func("printing", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "print", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in struct {
			N int `json:"n"`
		},
		) (string, error) {
			return strings.Repeat("x", in.N), nil
		})
		return nil
	})
}

// promptHas reports whether some line of a prompt holds a text.
func promptHas(m *harness.Model, n int, text string) bool {
	return strings.Contains(strings.Join(m.Prompt(n), "\n"), text)
}

// TestHistoryPrune shows placeholders for old large results and attachments once the window is 60 % full.
func TestHistoryPrune(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "print", `{"n":4000}`)), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")),
		harness.Reply(harness.Text("four")),
	)
	b.StartNode(printing(), history.Factory(history.Options{}))
	id := b.Open(api.CreateRequest{Config: events.Config{ContextWindow: 4000}})
	picture := events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: "aGk="}
	b.RunTurn(id, "t1", harness.Text("print"), picture)
	for _, turn := range []events.TurnID{"t2", "t3"} {
		b.RunTurn(id, turn, harness.Text("next"))
	}
	long := strings.Repeat("x", 4000)
	if promptHas(b.Model, 3, "no longer shown") || !promptHas(b.Model, 3, long) {
		t.Error("turn 3: got placeholders, want all of a window that is a little more than half full")
	}
	b.RunTurn(id, "t4", harness.Text(strings.Repeat("y", 2000)))
	if promptHas(b.Model, 4, long) || !promptHas(b.Model, 4, "[the result of print, 4000 bytes, is no longer shown]") || !promptHas(b.Model, 4, "[attachment image/png is no longer shown]") {
		t.Errorf("turn 4: got %.300q, want placeholders", b.Model.Prompt(4))
	}
	if got := strings.Join(b.Messages(id), "\n"); !strings.Contains(got, long) {
		t.Error("graph: got no long result, want it untouched")
	}
}

// TestHistoryTail shows the newest turns only, once the window is nearly full, and says so.
func TestHistoryTail(t *testing.T) {
	t.Parallel()
	var script []harness.Step
	for i := range 5 {
		script = append(script, harness.Reply(harness.Text(fmt.Sprintf("%d%s", i, strings.Repeat("z", 4000)))))
	}
	b := harness.StartIdle(t, script...)
	b.StartNode(history.Factory(history.Options{}))
	id := b.Open(api.CreateRequest{Config: events.Config{ContextWindow: 4000}})
	for i := range script {
		b.RunTurn(id, events.TurnID(fmt.Sprintf("t%d", i)), harness.Text(fmt.Sprintf("turn %d", i)))
	}
	if prompt := b.Model.Prompt(4); len(prompt) != 4 || !strings.HasPrefix(prompt[0], "system [6 earlier messages of this conversation are left out") || prompt[1] != "user turn 3" || prompt[3] != "user turn 4" {
		t.Errorf("prompt: got %.100q, want the last turns from a user's message on", prompt)
	}
	runtest.Equal(t, "messages", len(b.Messages(id)), 10)
}

// TestSmokeHistoryCompact summarises old turns, keeps recent ones, and does so again.
func TestSmokeHistoryCompact(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "print", `{"n":3000}`)), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")),
		harness.Reply(harness.Text("they printed")), harness.Reply(harness.Text("three")), harness.Reply(harness.Text("four")), harness.Reply(harness.Text("and counted")),
	)
	b.StartNode(printing(), history.Factory(history.Options{Keep: 20}))
	id := b.Open(api.CreateRequest{})
	if opened, err := b.Compact(b.Ctx, id); opened || err != nil {
		t.Errorf("empty session: got %v, %v, want nothing to do", opened, err)
	}
	b.RunTurn(id, "t1", harness.Text("print"))
	b.RunTurn(id, "t2", harness.Text("hello"))
	compact := func() {
		t.Helper()
		if opened, err := b.Compact(b.Ctx, id); !opened || err != nil {
			t.Fatalf("compact: got %v, %v, want a frame", opened, err)
		}
	}
	compact()
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"assistant Summary of the conversation so far:\n\nthey printed", "user hello", "assistant two"})
	if seed := b.ReadView(id).Messages[0]; seed.Origin != history.ID {
		t.Errorf("origin of the seed: got %q", seed.Origin)
	}
	if !promptHas(b.Model, 3, `user print`) || !promptHas(b.Model, 3, `[called print {"n":3000}]`) || promptHas(b.Model, 3, "hello") {
		t.Errorf("request: got %.200q, want the older part", b.Model.Prompt(3))
	}
	runtest.Equal(t, "ledger", b.StateOf(id).Usage().BySource["compaction"].Output, 5)
	b.RunTurn(id, "t3", harness.Text("say three"))
	b.RunTurn(id, "t4", harness.Text(strings.Repeat("four ", 20)))
	compact()
	if got := b.Messages(id); len(got) != 1 || got[0] != "assistant Summary of the conversation so far:\n\nand counted" {
		t.Errorf("messages: got %q, want a summary alone, as the last turn is above what is kept", got)
	}
	if !promptHas(b.Model, 6, "they printed") {
		t.Error("second request: got no earlier summary, want it")
	}
}
