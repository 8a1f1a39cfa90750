package bustest

import (
	"fmt"
	"os"

	"go.uber.org/goleak"
)

// VerifyTestMain is the TestMain of a package whose tests use servers: it runs
// them, and fails where they leave a goroutine behind that is not one which a
// library is known to leave.
func VerifyTestMain(m goleak.TestingM) { goleak.VerifyTestMain(m, leftByLibraries()...) }

// LeakChecked does the same for a TestMain that does not end the program itself.
type LeakChecked struct{ M goleak.TestingM }

// Run returns the exit code of the tests, 1 where only the look for goroutines failed.
func (l LeakChecked) Run() int {
	code := l.M.Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(leftByLibraries()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func leftByLibraries() []goleak.Option {
	return []goleak.Option{
		// nats.go 1.55.0 sometimes does not end it after an object was stored, or after a put failed at its start.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// nats-server 2.15.2 does not wait for it when it stops.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).processClusterStreamInfoRequest"),
		// nats-server 2.15.2 does not stop the store of a Raft group that it could not start while it stopped.
		// A server that a test left running has other goroutines, which are still found.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
	}
}
