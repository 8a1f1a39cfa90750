package harness

import (
	"flag"
	"os"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
)

// Main runs the tests of a package. It fails where a goroutine remains after them. Every TestMain calls it.
func Main(m *testing.M) {
	runEightTestsAtOnce()
	// Commands run in login shells. The tests do not depend on the profile of the user.
	_ = os.Setenv("BUILD_HOME", os.Getenv("HOME")) // the caches of go build are there
	_ = os.Setenv("HOME", "/no-home")
	bustest.VerifyTestMain(m)
}

// runEightTestsAtOnce sets -parallel to 8, whatever the number of processors, where the command line does
// not set it: most of the time the tests wait for servers and for timeouts.
func runEightTestsAtOnce() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "8")
	}
}
