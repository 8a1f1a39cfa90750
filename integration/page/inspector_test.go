package page

import (
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// TestSmokeInspector shows the prompt of a model call, with its digest and its instructions, the signed head that covers a
// commit, and the session as it was at a commit.
func TestSmokeInspector(t *testing.T) {
	t.Parallel()
	keys, err := keyring.Open(keyring.Dir(t.TempDir()), time.Now())
	runtest.WantError(t, "keys", err, nil)
	b := harness.StartIdle(t, harness.Reply(harness.Text("One.")), harness.Reply(harness.Text("Two.")))
	b.Host = b.StartNodeWith(workers.Config{Signer: keys.Signer}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}}).Host()
	id := b.Open(api.CreateRequest{Config: events.Config{Instructions: "Answer with a number."}})
	b.RunTurn(id, "t1", harness.Text("first"))
	b.RunTurn(id, "t2", harness.Text("second"))
	replies, heads := harness.Find[*events.ModelReplied](b, id), harness.Find[*events.AuditHeadSigned](b, id)
	runtest.Equal(t, "replies", len(replies), 2)
	runtest.Equal(t, "heads", len(heads), 2)
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(id), "reader")
	p.awaitText(".message.assistant", "Two.")
	p.click(".row[data-key^='n:a-t2-0'] .actions button")
	p.awaitText(".inspector", replies[1].Prompt.Digest)
	p.click(".inspector details summary")
	p.awaitText(".inspector", "Answer with a number.")
	runtest.Equal(t, "messages of the prompt", eval[int](p, "document.querySelectorAll('.prompt-message').length"), 3)
	p.awaitText(".inspector .proof", "A node signed all commits up to")
	p.awaitText(".inspector", "covered by the signed head of commit")

	p.click(".row[data-key^='n:a-t1-0'] .actions button")
	p.awaitText(".inspector", replies[0].Prompt.Digest)
	p.click(".inspector .buttons button")
	p.await("the session as it was", "document.querySelector('.session-page.past') && !document.body.innerText.includes('Two.') && document.body.innerText.includes('One.')")
	p.awaitText(".facts", "1")
}
