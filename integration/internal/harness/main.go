package harness

import (
	"os"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
)

// Main runs the tests of a package. It fails where a goroutine remains after them. Every TestMain calls it.
func Main(m *testing.M) {
	// Commands run in login shells. The tests do not depend on the profile of the user.
	_ = os.Setenv("BUILD_HOME", os.Getenv("HOME")) // the caches of go build are there
	_ = os.Setenv("HOME", "/no-home")
	bustest.VerifyTestMain(m)
}
