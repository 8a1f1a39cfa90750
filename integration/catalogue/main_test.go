// Package catalogue has the rules of sessions, turns, plugins, tools, tasks and monitors, one subtest for each.
package catalogue

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
