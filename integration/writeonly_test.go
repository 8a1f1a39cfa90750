package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestWritersReadNothing has a caller with a grant to write ask for every
// operation that this allows, in a session that is full of what another one
// said: no answer has any of it. With the right to read the same answers have.
func TestWritersReadNothing(t *testing.T) {
	t.Parallel()
	const private = "pr1vate"
	said := reply(text(private))
	b := setupIdle(t, said, said, said, said)
	b.node()
	d := b.door(httpapi.Config{})
	for n, op := range d.inSession() {
		if op.right != "write" || op.id == "complete" { // whose answer is of what the caller said itself
			continue
		}
		for _, rights := range [][]events.SessionRight{{"write"}, {"read", "write"}} {
			id := events.SessionID(fmt.Sprintf("s-%d-%d", n, len(rights)))
			alice := api.WithAsked(d.ctx, api.Asked{Actor: "alice"})
			_, err := d.Create(alice, api.CreateRequest{ID: id, First: &events.Message{Role: events.RoleUser, Parts: []events.Part{text(private)}}})
			must(t, "create", err, nil)
			if op.id != "registerTask" {
				_, err = d.RegisterTask(alice, id, api.TaskRequest{ID: "k1", Producer: private, Args: []byte(`"` + private + `"`)})
				must(t, "register", err, nil)
				_, err = d.ProgressTask(alice, id, "k1", private)
				must(t, "progress", err, nil)
			}
			must(t, "grant", d.Grant(d.ctx, id, api.GrantRequest{To: "bob", Rights: rights}), nil)
			query := query(op.id)
			if op.id == "submitTurn" {
				query = "?wait=60"
			}
			status, answer := d.outcome("bob", op.method, at(op.path, string(id))+query, validBodies()[op.id])
			shown := strings.Contains(answer, private)
			if len(rights) == 1 && shown {
				t.Errorf("%s with the right to write: got %d %s", op.id, status, answer)
			}
			switch op.id {
			case "submitTurn":
				equal(t, "status of a turn", status, map[int]int{1: 202, 2: 200}[len(rights)])
				fallthrough
			case "takeFirstInput", "progressTask", "endTask", "stopTask", "cancelTask":
				equal(t, op.id+" with the right to read shows", shown, len(rights) == 2)
			}
		}
	}
}
