package security

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestWritersReadNothing has a caller with a grant to write send every operation that this allows, in a session
// with content of another caller: no response has any of it. With the right to read the same responses have.
func TestWritersReadNothing(t *testing.T) {
	t.Parallel()
	const private = "pr1vate"
	reply := harness.Reply(harness.Text(private))
	b := harness.StartIdle(t, reply, reply, reply, reply)
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	for n, op := range inSession(d) {
		if op.Right != "write" || op.ID == "complete" { // whose response has content of the caller itself
			continue
		}
		for _, rights := range [][]events.SessionRight{{"write"}, {"read", "write"}} {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", n, len(rights)))
			alice := api.WithRequestMeta(d.Ctx, api.RequestMeta{Actor: "alice"})
			_, err := d.Create(alice, api.CreateRequest{ID: id, First: &events.Message{Role: events.RoleUser, Parts: []events.Part{harness.Text(private)}}})
			runtest.WantError(t, "create", err, nil)
			if op.ID != "registerTask" {
				_, err = d.RegisterTask(alice, id, api.TaskRequest{ID: "k1", Producer: private, Args: []byte(`"` + private + `"`)})
				runtest.WantError(t, "register", err, nil)
				_, err = d.ProgressTask(alice, id, "k1", private)
				runtest.WantError(t, "progress", err, nil)
			}
			runtest.WantError(t, "grant", d.Grant(d.Ctx, id, api.GrantRequest{To: "bob", Rights: rights}), nil)
			query := harness.QueryOf(op.ID)
			if op.ID == "submitTurn" {
				query = "?wait=60"
			}
			status, answer := d.StatusOf("bob", op.Method, harness.PathOf(op.Path, string(id))+query, harness.ValidBodies()[op.ID])
			shown := strings.Contains(answer, private)
			if len(rights) == 1 && shown {
				t.Errorf("%s with the right to write: got %d %s", op.ID, status, answer)
			}
			switch op.ID {
			case "submitTurn":
				runtest.Equal(t, "status of a turn", status, map[int]int{1: 202, 2: 200}[len(rights)])
				fallthrough
			case "takeFirstInput", "progressTask", "endTask", "transitionTask", "stopTask", "cancelTask":
				runtest.Equal(t, op.ID+" with the right to read shows", shown, len(rights) == 2)
			}
		}
	}
}
