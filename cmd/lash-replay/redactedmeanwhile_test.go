package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

// closedTalk makes a closed session with messages.
func closedTalk(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	_, err = h.Create(t.Context(), api.CreateRequest{ID: id})
	runtest.NoError(t, err)
	for i := range 3 {
		said := events.Message{Role: events.RoleUser, Parts: textParts(fmt.Sprint("word ", i))}
		_, err = h.AppendNodes(t.Context(), id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &said}}})
		runtest.NoError(t, err)
	}
	runtest.NoError(t, h.CloseSession(t.Context(), id, "done"))
}

// TestRedactedMeanwhile redacts a session before each request of its verification, and of its export. The verification finds no violation,
// and an archive that lacks payloads has the record of that.
func TestRedactedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]func(ctx context.Context, src source, id events.SessionID, dir string) error{
		"verify": func(ctx context.Context, src source, id events.SessionID, _ string) error {
			r := &verifyRun{trust: &trust{}}
			found, err := r.history(ctx, src, id)
			if err == nil && len(found.Violations) > 0 {
				err = fmt.Errorf("got %v, want no violation", found.Violations)
			}
			return err
		},
		"export": func(ctx context.Context, src source, id events.SessionID, dir string) error {
			temp, err := os.Create(filepath.Join(dir, string(id))) //nolint:gosec // a folder of the test
			if err != nil {
				return err
			}
			w := written{Session: id}
			if err = w.archive(ctx, &env{}, src, temp, &redactFlags{}); err == nil && w.Redacted > 0 && len(w.Redactions) != 1 {
				err = fmt.Errorf("%d payloads are missing in the archive, it has %d records, want one", w.Redacted, len(w.Redactions))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			b, on, dir := bustest.Open(t, server), bustest.OpenInterrupted(t, server), t.TempDir()
			for k, done := 1, true; done; k++ {
				id := events.SessionID(fmt.Sprint("s-", k))
				closedTalk(t, b, id)
				done = on.At(k, func() {
					r := events.RedactionRecord{At: 1, By: "ann", Reason: "asked to", What: []string{"graph.appended"}}
					_, err := sessionarchive.Redact(t.Context(), b, id, r, nil)
					runtest.WantError(t, "redact", err, nil)
				}, func() {
					runtest.WantError(t, fmt.Sprintf("redacted before write %d", k), work(t.Context(), &busSource{Bus: on.Bus}, id, dir), nil)
				})
				if k > 500 {
					t.Fatal("it has no end")
				}
			}
		})
	}
}
