// Package history tests cold sessions, erased sessions and copies of sessions.
package history

import (
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
