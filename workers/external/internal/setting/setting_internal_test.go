package setting

import (
	"testing"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// TestScopeOfCallbacks compares the rights of a plugin with the operations that the operator lists, for each operation.
func TestScopeOfCallbacks(t *testing.T) {
	t.Parallel()
	for _, row := range operation.All() {
		if row.Route == "" {
			continue
		}
		scope := (&Plugin{Callbacks: []string{row.ID}}).Scope()
		if err := scope.Check(); err != nil || !scope.Has(api.RightRead) || row.Needs != "" && !scope.Has(row.Needs) {
			t.Errorf("%s: got scope %s, %v, want the right to read and %s", row.ID, scope, err, row.Needs)
		}
		for _, right := range []api.Right{api.RightWrite, api.RightApprove, api.RightConfigure, api.RightCommand} {
			if scope.Has(right) && row.Needs != right && row.Needs != api.RightGrant {
				t.Errorf("%s: the scope %s has the right %s, and the operation needs %s", row.ID, scope, right, row.Needs)
			}
		}
	}
	if got := (&Plugin{}).Scope(); got != api.ScopeRead {
		t.Errorf("no operation: got %s, want %s", got, api.ScopeRead)
	}
}
