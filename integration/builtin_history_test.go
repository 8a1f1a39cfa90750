package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
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

// shows reports whether some line of a prompt holds a text.
func (m *model) shows(n int, text string) bool {
	return strings.Contains(strings.Join(m.prompt(n), "\n"), text)
}

// TestHistoryPrune shows placeholders for old large results and attachments once the window is 60 % full.
func TestHistoryPrune(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(call("c1", "print", `{"n":4000}`)), reply(text("one")), reply(text("two")), reply(text("three")),
		reply(text("four")),
	)
	b.node(printing(), history.Factory(history.Options{}))
	id := b.open(api.CreateRequest{Config: events.Config{ContextWindow: 4000}})
	picture := events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: "aGk="}
	b.run(id, "t1", text("print"), picture)
	for _, turn := range []events.TurnID{"t2", "t3"} {
		b.run(id, turn, text("next"))
	}
	long := strings.Repeat("x", 4000)
	if b.model.shows(3, "no longer shown") || !b.model.shows(3, long) {
		t.Error("turn 3: got placeholders, want all of a window that is a little more than half full")
	}
	b.run(id, "t4", text(strings.Repeat("y", 2000)))
	if b.model.shows(4, long) || !b.model.shows(4, "[the result of print, 4000 bytes, is no longer shown]") || !b.model.shows(4, "[attachment image/png is no longer shown]") {
		t.Errorf("turn 4: got %.300q, want placeholders", b.model.prompt(4))
	}
	if got := strings.Join(b.messages(id), "\n"); !strings.Contains(got, long) {
		t.Error("graph: got no long result, want it untouched")
	}
}

// TestHistoryTail shows the newest turns only, once the window is nearly full.
func TestHistoryTail(t *testing.T) {
	t.Parallel()
	var script []step
	for i := range 5 {
		script = append(script, reply(text(fmt.Sprintf("%d%s", i, strings.Repeat("z", 4000)))))
	}
	b := setupIdle(t, script...)
	b.node(history.Factory(history.Options{}))
	id := b.open(api.CreateRequest{Config: events.Config{ContextWindow: 4000}})
	for i := range script {
		b.run(id, events.TurnID(fmt.Sprintf("t%d", i)), text(fmt.Sprintf("turn %d", i)))
	}
	if prompt := b.model.prompt(4); len(prompt) != 3 || prompt[0] != "user turn 3" || prompt[2] != "user turn 4" {
		t.Errorf("prompt: got %.100q, want the last turns from a user's message on", prompt)
	}
	equal(t, "messages", len(b.messages(id)), 10)
}

// TestHistoryCompact summarises what is old, keeps what is recent, and does so again.
func TestHistoryCompact(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(call("c1", "print", `{"n":3000}`)), reply(text("one")), reply(text("two")),
		reply(text("they printed")), reply(text("three")), reply(text("four")), reply(text("and counted")),
	)
	b.node(printing(), history.Factory(history.Options{Keep: 20}))
	id := b.open(api.CreateRequest{})
	if opened, err := b.Compact(b.ctx, id); opened || err != nil {
		t.Errorf("empty session: got %v, %v, want nothing to do", opened, err)
	}
	b.run(id, "t1", text("print"))
	b.run(id, "t2", text("hello"))
	compact := func() {
		t.Helper()
		if opened, err := b.Compact(b.ctx, id); !opened || err != nil {
			t.Fatalf("compact: got %v, %v, want a frame", opened, err)
		}
	}
	compact()
	equalLists(t, "messages", b.messages(id), []string{"assistant Summary of the conversation so far:\n\nthey printed", "user hello", "assistant two"})
	if seed := b.view(id).Messages[0]; seed.Origin != history.ID {
		t.Errorf("origin of the seed: got %q", seed.Origin)
	}
	if !b.model.shows(3, `user print`) || !b.model.shows(3, `[called print {"n":3000}]`) || b.model.shows(3, "hello") {
		t.Errorf("request: got %.200q, want the older part", b.model.prompt(3))
	}
	equal(t, "ledger", b.state(id).Usage().BySource["compaction"].Output, 5)
	b.run(id, "t3", text("say three"))
	b.run(id, "t4", text(strings.Repeat("four ", 20)))
	compact()
	if got := b.messages(id); len(got) != 1 || got[0] != "assistant Summary of the conversation so far:\n\nand counted" {
		t.Errorf("messages: got %q, want a summary alone, as the last turn is above what is kept", got)
	}
	if !b.model.shows(6, "they printed") {
		t.Error("second request: got no earlier summary, want it")
	}
}

func (b *bundle) view(id events.SessionID) projector.ReadView {
	b.t.Helper()
	v, err := b.View(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}
