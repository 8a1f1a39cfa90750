package session_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestKeyReadsNoHistory sends requests with new keys to a long session. A read of the whole history would use a
// connection of its own, which the bus counts in Connections. A shorter read would change the message count.
func TestKeyReadsNoHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 500 {
		ctx := api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: "a", Key: fmt.Sprint("before", i)})
		if err := b.Host.Grant(ctx, sid, api.GrantRequest{To: "you", Rights: []events.SessionRight{[]events.SessionRight{"read", "write"}[i%2]}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, do := range map[string]func(context.Context) error{
		"submit": func(ctx context.Context) error { _, err := b.Host.Submit(ctx, sid, api.Ask("x")); return err },
		"submitAt": func(ctx context.Context) error {
			_, err := b.Host.SubmitAt(ctx, sid, soon, api.Ask("x"))
			return err
		},
		"inject": func(ctx context.Context) error {
			_, err := b.Host.Inject(ctx, sid, api.InjectRequest{Parts: api.Ask("x").Input.Parts})
			return err
		},
		"grant": func(ctx context.Context) error {
			return b.Host.Grant(ctx, sid, api.GrantRequest{To: "other", Rights: []events.SessionRight{"read"}})
		},
		"configure": func(ctx context.Context) error {
			return b.Host.Configure(ctx, sid, api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Effort = "high"; return c }})
		},
	} {
		before, from := b.State(), b.Bus.Conn().Stats().InMsgs
		if before.Seq < 500 || b.Bus.Connections() != 1 {
			t.Fatalf("got %d commits and %d connections, want 500 and one", before.Seq, b.Bus.Connections())
		}
		if err := do(api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: "a", Key: name})); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := b.Bus.Conn().Stats().InMsgs - from
		if after := b.State(); after.Seq != before.Seq+1 || got > 20 || b.Bus.Connections() != 1 {
			t.Fatalf("%s: got to %d from %d with %d messages over %d connections, want one commit more, at most 20 and one",
				name, after.Seq, before.Seq, got, b.Bus.Connections())
		}
	}
}
