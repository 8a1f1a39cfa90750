package integration

import (
	"fmt"
	"maps"
	"slices"
)

// leastScopes is what a token must be allowed for each operation: read for what
// only looks, write for what a user of sessions does to them and to their own
// turns, tools, tasks and monitors, admin for what names a command that a node
// runs; nothing for the document. It is written from what operations mean, for
// the handlers to be held against.
func leastScopes() map[string]string {
	return map[string]string{
		"document": "",

		"getSession": "read", "getView": "read", "watchEvents": "read", "getTurn": "read", "watchTurn": "read", "getApprovals": "read",
		"getOutput": "read", "getTools": "read", "getTasks": "read", "getTask": "read", "getMonitors": "read", "getToolCatalog": "read", "getActions": "read", "getToolSources": "read",
		"listSessions": "read", "listTurns": "read", "listApprovals": "read", "getBlob": "read", "storeBlob": "write",

		"createSession": "write", "configureSession": "write", "closeSession": "write", "forkSession": "write", "grant": "write",
		"submitTurn": "write", "cancelTurn": "write", "injectInput": "write", "cancelInput": "write",
		"appendNodes": "write", "branchTo": "write", "openFrame": "write", "compact": "write",
		"approve": "write", "resolveCall": "write", "setTools": "write",
		"cancelTask": "write", "stopMonitor": "write", "takeUpdates": "write",

		"rewriteMessages": "write", "takeFirstInput": "write", "setProtocolOptions": "write", "applyExtension": "write", "applyTools": "write", "addToolSource": "write", "removeToolSource": "write", "refreshCatalog": "write", "replaceExtensions": "write",
		"invokeAction": "write", "complete": "write", "streamCompletion": "write", "registerTask": "write", "progressTask": "write", "endTask": "write", "stopTask": "write",
		"cancelTasks": "write", "transferTasks": "write",

		"startMonitor": "admin",
	}
}

// scopes asks for every operation with a token of every scope and with none:
// those below the least one are refused, whatever the session is, and the
// others are not.
func (d *door) scopes() {
	d.t.Helper()
	holders := []struct{ scope, token string }{{"", ""}, {"read", "reader"}, {"write", "writer"}, {"admin", "admin"}}
	rank := map[string]int{"": 0, "read": 1, "write": 2, "admin": 3}
	least := leastScopes()
	for _, op := range d.doc.operations() {
		want, known := least[op.id]
		delete(least, op.id)
		if !known {
			d.t.Errorf("%s: got no least scope for it here", op.id)
			continue
		}
		equal(d.t, "documented scope of "+op.id, op.scope, want)
		for _, h := range holders {
			got := d.ask(h.token, op.method, at(op.path, "nosuch")+query(op.id), validBodies()[op.id])
			outcome := fmt.Sprint(got.status, " ", got.text("code"))
			switch allowed := rank[h.scope] >= rank[want]; {
			case allowed && (got.status == 401 || got.status == 403):
				d.t.Errorf("%s with scope %q: got %s, want it allowed", op.id, h.scope, outcome)
			case !allowed && h.scope == "":
				equal(d.t, op.id+" without a token", outcome, "401 unauthorized")
			case !allowed:
				equal(d.t, op.id+" with scope "+h.scope, outcome, "403 forbidden")
			}
		}
	}
	if len(least) > 0 {
		d.t.Errorf("operations that the document lacks: %v", slices.Sorted(maps.Keys(least)))
	}
}
