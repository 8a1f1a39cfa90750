package system

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestHTTPPolicies submits turns over HTTP while t1 runs, with every policy and one that does not exist.
func TestHTTPPolicies(t *testing.T) {
	t.Parallel()
	k := &blockingModel{}
	b, id, _ := setupConversation(t, k, 1)
	k.awaitStart(b, id)
	other := b.Open(api.CreateRequest{})
	k.awaitStart(b, other)
	d := b.ServeHTTP(httpapi.Config{})
	turns := "/v1/sessions/" + string(id) + "/turns"

	got := d.WantProblem(400, "invalid", "POST", turns, `{"id":"x1","text":"x1","when_busy":"hurry"}`)
	harness.Equal(t, "names it", strings.Contains(got.Field("detail"), `unknown "hurry"`), true)
	d.WantProblem(400, "invalid", "POST", turns, `{"id":"x1","continue":true,"when_busy":"inject"}`)
	harness.Equal(t, "what was refused", len(b.StateOf(id).Queue), 0)

	got = d.WantProblem(409, "turn_rejected", "POST", turns+"?wait=30", `{"id":"t2","text":"t2","when_busy":"reject"}`)
	harness.Equal(t, "because of", got.Field("details"), "map[by:t1 turn:t2]")
	d.Want(202, "POST", turns, `{"id":"t3","text":"t3","when_busy":"reject"}`)
	for _, path := range []string{turns + "/t3?wait=30", turns + "/t3"} { // whether the client waits or not
		got = d.Want(200, "GET", path, "")
		harness.Equal(t, "outcome", strings.Contains(string(got.Body), `"type":"diverted"`) && strings.Contains(string(got.Body), "rejected"), true)
	}

	d.Want(202, "POST", turns, `{"id":"t4","text":"t4","when_busy":"enqueue"}`)
	d.Want(202, "POST", turns, `{"id":"t5","text":"t5","when_busy":"inject"}`)
	b.AwaitState(id, "turns that wait", func(s *projector.State) bool { return len(s.Queue) == 2 })
	d.Want(200, "POST", turns+"?wait=30", `{"id":"t6","text":"t6","when_busy":"branch"}`)
	harness.Equal(t, "where t6 goes on", b.AwaitTurn(id, "t6").Session, session.BranchOf(id, "t6"))
	harness.Equal(t, "running meanwhile", b.StateOf(id).Turn().ID, "t1")
	got = d.Want(200, "POST", "/v1/sessions/"+string(other)+"/turns?wait=30", `{"id":"t7","text":"t7","when_busy":"interrupt"}`)
	harness.Equal(t, "text of who interrupts", strings.Contains(string(got.Body), `"safe_text":"t7/0/model"`), true)
	harness.Equal(t, "end of who was in the way", b.AwaitTurn(other, "t1").End, events.EndCancelled)

	k.frees(b, id)
	got = d.Want(200, "GET", turns+"/t4?wait=30", "")
	harness.Equal(t, "text of who waited", strings.Contains(string(got.Body), `"safe_text":"t4/0/model"`), true)
	d.Want(200, "GET", turns+"/t5?wait=30", "")
	harness.Equal(t, "end of what was taken in", b.AwaitTurn(id, "t5").End, events.EndInjected)
	harness.EqualLists(t, "messages", b.Messages(id), []string{
		"user t0", "assistant t0/0/model", "user t1", "assistant t1/0/model", "user t5", "assistant t1/1/model", "user t4", "assistant t4/0/model",
	})
	harness.VerifyHistory(t, b.Bus, id)
}
