package integration

import (
	"bytes"
	"slices"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/workers/builtin/background"
)

// TestRoleHostClient drives a session from its creation to its end with a host client's permissions.
func TestRoleHostClient(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", append(everythingScript(), reply(text("for a client")))...)
	b.node(bulky(), background.Factory(background.Config{}))
	everything(b, "s1")
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("alice@acme")), Logger: zaptest.NewLogger(t)})
	must(t, "client", err, nil)
	id, err := c.Create(b.ctx, api.CreateRequest{})
	must(t, "create", err, nil)
	got, err := c.Run(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("hi")}}})
	must(t, "run", err, nil)
	equal(t, "answer", got.Text, "for a client")
	for seen, err := range c.Observe(b.ctx, id, 0) {
		must(t, "observe", err, nil)
		if seen.Commit != nil && slices.ContainsFunc(seen.Commit.Events, func(e events.Event) bool { return e.Kind == events.KindTurnCompleted }) {
			break
		}
	}
	_, err = c.View(b.ctx, "s1")
	must(t, "view of a long history", err, nil)
	_, err = c.PutBlob(b.ctx, bytes.Repeat([]byte("x"), 1000))
	must(t, "put blob", err, nil)
	_, err = c.ToolState(b.ctx, id)
	must(t, "tool state", err, nil)
	_, err = c.Tasks(b.ctx, "s1")
	must(t, "tasks", err, nil)
	_, err = c.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	must(t, "close", c.CloseSession(b.ctx, id, "done"), nil)
}
