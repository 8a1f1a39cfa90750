// Package turn tests approvals, policies, queued turns, results, timers, and the code protocol.
package turn

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
