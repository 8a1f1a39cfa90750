package harness

import (
	"os"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// buildHome names the variable with the home of the user.
const buildHome = "LASH_TEST_BUILD_HOME"

// Main runs the tests of a package. It fails where a goroutine remains after them. Every TestMain calls it.
func Main(m *testing.M) {
	// Commands run in login shells. The tests do not depend on the profile of the user.
	_ = os.Setenv(buildHome, os.Getenv("HOME")) // for [Go]
	_ = os.Setenv("HOME", "/no-home")
	bustest.VerifyTestMain(m)
}

// MainOfSmoke is [Main] of a package of which TestSmoke… are the default tests.
func MainOfSmoke(m *testing.M) {
	runtest.SelectSmoke()
	Main(m)
}
