package bustest

import (
	"fmt"
	"os"
	"runtime/debug"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/internal/runtest"
)

// VerifyTestMain is the TestMain of a package whose tests use servers. It runs the tests, and fails if
// they leave goroutines other than those that a library is known to leave.
func VerifyTestMain(m goleak.TestingM) {
	goleak.VerifyTestMain(prepare(m), leftByLibraries()...)
}

// LeakChecked does the same for a TestMain that does not exit itself.
type LeakChecked struct{ M goleak.TestingM }

// Run returns the exit code of the tests, or 1 where only the check for goroutines failed.
func (l LeakChecked) Run() int {
	code := prepare(l.M).Run()
	if code != 0 {
		return code
	}
	if err := goleak.Find(leftByLibraries()...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func prepare(m goleak.TestingM) goleak.TestingM {
	collectLess()
	keepFilesInMemory()
	return runtest.Select(m)
}

// collectLess lets the heap grow to five times what is in use. A test has a small heap, whose collection would take a quarter of the time.
func collectLess() { debug.SetGCPercent(400) }

func leftByLibraries() []goleak.Option {
	return []goleak.Option{
		// nats.go 1.55.0 sometimes does not end it after an object was stored, or after a put that failed at its
		// start.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// nats-server 2.15.2 does not wait for it when it stops.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).processClusterStreamInfoRequest"),
		// nats-server 2.15.2 does not stop the store of a Raft group that fails to start during the server's stop.
		// The other goroutines of a server that a test leaves running are still found.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		// go-sdk 1.8.0 keeps a session of a server over HTTP whose client ended it while the server's stop was under way.
		goleak.IgnoreTopFunction("github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read"),
	}
}
