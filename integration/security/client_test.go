package security

import (
	"bytes"
	"slices"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/workers/builtin/background"
)

// TestRoleHostClient uses a session from its creation to its end with a host client's permissions.
func TestRoleHostClient(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", append(exerciseScript(), harness.Reply(harness.Text("for a client")))...)
	b.StartNode(bulky(), background.Factory(background.Config{}))
	exerciseSession(b, "s1")
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("alice@acme")), Logger: zaptest.NewLogger(t)})
	harness.WantError(t, "client", err, nil)
	id, err := c.Create(b.Ctx, api.CreateRequest{})
	harness.WantError(t, "create", err, nil)
	got, err := c.Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}}})
	harness.WantError(t, "run", err, nil)
	harness.Equal(t, "answer", got.Text, "for a client")
	for seen, err := range c.Observe(b.Ctx, id, 0) {
		harness.WantError(t, "observe", err, nil)
		if seen.Commit != nil && slices.ContainsFunc(seen.Commit.Events, func(e events.Event) bool { return e.Kind == events.KindTurnCompleted }) {
			break
		}
	}
	_, err = c.View(b.Ctx, "s1")
	harness.WantError(t, "view of a long history", err, nil)
	_, err = c.PutBlob(b.Ctx, bytes.Repeat([]byte("x"), 1000))
	harness.WantError(t, "put blob", err, nil)
	_, err = c.ToolState(b.Ctx, id)
	harness.WantError(t, "tool state", err, nil)
	_, err = c.Tasks(b.Ctx, "s1")
	harness.WantError(t, "tasks", err, nil)
	_, err = c.Fork(b.Ctx, id, api.CreateRequest{})
	harness.WantError(t, "fork", err, nil)
	harness.WantError(t, "close", c.CloseSession(b.Ctx, id, "done"), nil)
}
