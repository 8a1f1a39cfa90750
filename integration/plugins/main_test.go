// Package plugins tests plugins, their tools and hooks, and the plugins that are built in.
package plugins

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
