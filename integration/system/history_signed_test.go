package system

import (
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// TestSignedTurnAppends runs the same turns on a node that signs heads and on one that does not. The commits are the
// same, with one head in the commit that ends each turn: a head is no append of its own.
func TestSignedTurnAppends(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]harness.Step{
		"finished": harness.Reply(harness.Text("ok")),
		"failed":   harness.Fail(llm.KindAuth, "no_key"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys, err := keyring.Open(keyring.Dir(t.TempDir()), time.Now())
			runtest.WantError(t, "keys", err, nil)
			without := commitsOfTurns(t, reply, nil, nil)
			with := commitsOfTurns(t, reply, keys.Signer, nil)
			ended := 0
			for i, kinds := range with {
				heads := len(kinds)
				kinds = slices.DeleteFunc(kinds, func(k events.Kind) bool { return k == events.KindAuditHeadSigned })
				heads -= len(kinds)
				ends := 0
				if slices.Contains(kinds, events.KindTurnCompleted) {
					ends = 1
				}
				ended += ends
				runtest.Equal(t, "heads in the commit", heads, ends)
				with[i] = kinds
			}
			runtest.Equal(t, "turns that ended", ended, 3)
			runtest.DeepEqual(t, "commits", with, without)
		})
	}
}

// TestEncryptedTurnAppends runs the same turns on a node with keys of bodies and on one without: the commits are the same.
func TestEncryptedTurnAppends(t *testing.T) {
	t.Parallel()
	reply := harness.Reply(harness.Text("ok"))
	runtest.DeepEqual(t, "commits", commitsOfTurns(t, reply, nil, bustest.Keys(t)), commitsOfTurns(t, reply, nil, nil))
}

// commitsOfTurns runs three turns and returns the kinds of events of each commit of the history. signer and keys may be nil.
func commitsOfTurns(t *testing.T, reply harness.Step, signer func() *proof.Signer, keys *bodykey.Keys) (commits [][]events.Kind) {
	t.Helper()
	server := bustest.Server(t, busembed.Config{})
	f := &harness.Fleet{System: harness.StartWith(t, server, bustest.OpenWith(t, server, keys))}
	f.Reply = reply
	f.JoinOn(bustest.OpenWith(t, server, keys), workers.Config{Signer: signer})
	id := f.Open(api.CreateRequest{})
	for _, turn := range []events.TurnID{"t1", "t2", "t3"} {
		f.StartTurn(id, turn, harness.Text("go"))
		f.AwaitTurn(id, turn)
	}
	for e, err := range f.Bus.Log().Read(f.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		kinds := []events.Kind{}
		for i := range e.Commit.Events {
			kinds = append(kinds, e.Commit.Events[i].Kind)
		}
		commits = append(commits, kinds)
	}
	return commits
}
