package bustest

import (
	"go.uber.org/goleak"
)

// VerifyTestMain runs a package's tests, and fails where they leave a goroutine
// behind that is not one which a library is known to leave.
func VerifyTestMain(m goleak.TestingM) {
	goleak.VerifyTestMain(m,
		// nats.go 1.55.0 sometimes does not end it after an object was stored, or after a put failed at its start.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// nats-server 2.15.2 does not wait for it when it stops.
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).processClusterStreamInfoRequest"))
}
