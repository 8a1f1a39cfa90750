package integration

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestHTTPPolicies asks over HTTP for turns while t1 runs, with every policy and one that does not exist.
func TestHTTPPolicies(t *testing.T) {
	t.Parallel()
	k := &talker{}
	b, id, _ := setupTalk(t, k, 1)
	k.begins(b, id)
	other := b.open(api.CreateRequest{})
	k.begins(b, other)
	d := b.door(httpapi.Config{})
	turns := "/v1/sessions/" + string(id) + "/turns"

	got := d.refused(400, "invalid", "POST", turns, `{"id":"x1","text":"x1","when_busy":"hurry"}`)
	equal(t, "names it", strings.Contains(got.text("detail"), `unknown "hurry"`), true)
	d.refused(400, "invalid", "POST", turns, `{"id":"x1","continue":true,"when_busy":"inject"}`)
	equal(t, "what was refused", len(b.state(id).Queue), 0)

	got = d.refused(409, "turn_rejected", "POST", turns+"?wait=30", `{"id":"t2","text":"t2","when_busy":"reject"}`)
	equal(t, "because of", got.text("details"), "map[by:t1 turn:t2]")
	d.want(202, "POST", turns, `{"id":"t3","text":"t3","when_busy":"reject"}`)
	for _, path := range []string{turns + "/t3?wait=30", turns + "/t3"} { // whether who reads it waits or not
		got = d.want(200, "GET", path, "")
		equal(t, "outcome", strings.Contains(string(got.body), `"type":"diverted"`) && strings.Contains(string(got.body), "rejected"), true)
	}

	d.want(202, "POST", turns, `{"id":"t4","text":"t4","when_busy":"enqueue"}`)
	d.want(202, "POST", turns, `{"id":"t5","text":"t5","when_busy":"inject"}`)
	b.await(id, "turns that wait", func(s *projector.State) bool { return len(s.Queue) == 2 })
	d.want(200, "POST", turns+"?wait=30", `{"id":"t6","text":"t6","when_busy":"branch"}`)
	equal(t, "where t6 goes on", b.ended(id, "t6").Session, session.BranchOf(id, "t6"))
	equal(t, "running meanwhile", b.state(id).Turn().ID, "t1")
	got = d.want(200, "POST", "/v1/sessions/"+string(other)+"/turns?wait=30", `{"id":"t7","text":"t7","when_busy":"interrupt"}`)
	equal(t, "text of who interrupts", strings.Contains(string(got.body), `"safe_text":"t7/0/model"`), true)
	equal(t, "end of who was in the way", b.ended(other, "t1").End, events.EndCancelled)

	k.frees(b, id)
	got = d.want(200, "GET", turns+"/t4?wait=30", "")
	equal(t, "text of who waited", strings.Contains(string(got.body), `"safe_text":"t4/0/model"`), true)
	d.want(200, "GET", turns+"/t5?wait=30", "")
	equal(t, "end of what was taken in", b.ended(id, "t5").End, events.EndInjected)
	equalLists(t, "messages", b.messages(id), []string{
		"user t0", "assistant t0/0/model", "user t1", "assistant t1/0/model", "user t5", "assistant t1/1/model", "user t4", "assistant t4/0/model",
	})
	verified(t, b.bus, id)
}
