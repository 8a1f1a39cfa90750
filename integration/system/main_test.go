// Package system tests the system as a whole. The files begin with their subject: clients, over every API at once; faults,
// which are lost wakes, killed processes, clusters that lose servers or connections, and clocks that jump; fleet, several nodes
// together: takeover, fairness, drain, roles, limits, telemetry; history: cold and erased sessions, and copies; plugins, with
// their tools and hooks; turn: approvals, policies, queued turns, results, timers, and the code protocol.
package system

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.MainOfSmoke(m) }
