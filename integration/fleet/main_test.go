// Package fleet tests several nodes together: takeover, fairness, drain, roles, limits, telemetry.
package fleet

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
