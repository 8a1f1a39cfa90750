package system

import (
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// leastScopes is the least scope of a token for each operation that changes something: write for what a user of
// sessions changes in them and in their own turns, tools, tasks and monitors; admin for operations that name a command
// that a node runs; none for the document. The other operations read. The table is written from the meaning of the
// operations, and the handlers are checked against it.
func leastScopes() map[string]string {
	return map[string]string{
		"document": "",

		"storeBlob":     "write",
		"createSession": "write", "configureSession": "write", "closeSession": "write", "forkSession": "write", "grant": "write",
		"submitTurn": "write", "cancelTurn": "write", "injectInput": "write", "cancelInput": "write",
		"appendNodes": "write", "branchTo": "write", "openFrame": "write", "compact": "write",
		"approve": "write", "resolveCall": "write", "setTools": "write",
		"cancelTask": "write", "stopMonitor": "write", "takeUpdates": "write",

		"rewriteMessages": "write", "takeFirstInput": "write", "setProtocolOptions": "write", "applyExtension": "write", "applyTools": "write", "addToolSource": "write", "removeToolSource": "write", "refreshCatalog": "write", "replaceExtensions": "write",
		"invokeAction": "write", "complete": "write", "streamCompletion": "write", "registerTask": "write", "progressTask": "write", "endTask": "write", "transitionTask": "write", "unregisterTask": "write", "stopTask": "write",
		"cancelTasks": "write", "transferTasks": "write",

		"startMonitor": "admin",
	}
}

// scopes sends every operation with a token of every scope and with none: those below the least one are refused in
// any session, and the others are not.
func scopes(d *harness.HTTP) {
	d.T.Helper()
	holders := []struct{ scope, token string }{{"", ""}, {"read", "reader"}, {"write", "writer"}, {"admin", "admin"}}
	rank := map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}
	least := leastScopes()
	for _, op := range d.Doc.Operations() {
		want, known := least[op.ID]
		delete(least, op.ID)
		if !known {
			want = "read"
		}
		runtest.Equal(d.T, "documented scope of "+op.ID, op.Scope, want)
		for _, h := range holders {
			got := d.Send(h.token, op.Method, harness.PathOf(op.Path, "nosuch")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
			outcome := fmt.Sprint(got.Status, " ", got.Field("code"))
			switch allowed := rank[h.scope] >= rank[want]; {
			case allowed && (got.Status == 401 || got.Status == 403):
				d.T.Errorf("%s with scope %q: got %s, want it allowed", op.ID, h.scope, outcome)
			case !allowed && h.scope == "":
				runtest.Equal(d.T, op.ID+" without a token", outcome, "401 unauthorized")
			case !allowed:
				runtest.Equal(d.T, op.ID+" with scope "+h.scope, outcome, "403 forbidden")
			}
		}
	}
	if len(least) > 0 {
		d.T.Errorf("operations that the document lacks: %v", slices.Sorted(maps.Keys(least)))
	}
}
