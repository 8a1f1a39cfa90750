// Package faults tests lost wakes, killed processes, clusters that lose servers or connections, and clocks that jump.
package faults

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
