package session_test

import (
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/session/sessiontest"
)

// TestHeadsNeedAValidCertificate: a turn ends with a head only while the certificate is valid. The next head covers
// the commits without one.
func TestHeadsNeedAValidCertificate(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]time.Time{"valid": time.Now(), "expired": time.Now().Add(-2 * keyring.Validity), "not_yet_valid": time.Now().Add(2 * keyring.Validity)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			keys, err := keyring.Open(keyring.Dir(t.TempDir()), made)
			runtest.NoError(t, err)
			h := sessiontest.NewHost(t, session.Config{Bus: bustest.Open(t, b.Server), Signer: keys.Signer})
			_, err = h.Submit(t.Context(), sid, ask("t1", "go"))
			runtest.NoError(t, err)
			on, now := b.State(), time.Now()
			c := &events.Commit{
				ID: events.CommitID(ulid.Make().String()), Session: sid, At: events.MillisOf(now), Actor: events.Actor{Kind: events.ActorNode, ID: "w1"},
				Salt: session.NewSalt(), Events: []events.Event{events.Of("t1", &events.TurnCompleted{End: events.EndFailed, Issue: events.Issue{Code: "x"}})},
			}
			_, err = h.Worker().AppendCommit(t.Context(), c, on, func(*events.Commit) (*projector.State, error) { return on.Clone(), nil })
			runtest.NoError(t, err)
			kinds := b.history(0)
			if !slices.Contains(kinds, events.KindTurnCompleted) {
				t.Fatalf("got %v, want a turn that ended", kinds)
			}
			if got := slices.Contains(kinds, events.KindAuditHeadSigned); got != (name == "valid") {
				t.Errorf("a head in %v: got %v, want %v", kinds, got, name == "valid")
			}
		})
	}
}
