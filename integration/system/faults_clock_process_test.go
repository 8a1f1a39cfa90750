package system

import (
	"context"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// Variables of a node in a process of its own.
const (
	clockedServers = "LASH_CLOCKED_SERVERS"
	clockedJournal = "LASH_CLOCKED_JOURNAL"
	clockedRound   = "LASH_CLOCKED_ROUND"
)

// TestChildClocked is a node of TestClockJumps, in another process. It writes a byte for each effect that it
// starts.
func TestChildClocked(t *testing.T) {
	servers := os.Getenv(clockedServers)
	journal, err := os.OpenFile(os.Getenv(clockedJournal), os.O_APPEND|os.O_WRONLY, 0o600)
	runtest.WantError(t, "journal", err, nil)
	defer journal.Close() //nolint:errcheck // it was only appended to
	round, err := strconv.Atoi(os.Getenv(clockedRound))
	runtest.WantError(t, "round", err, nil)
	b, err := bus.Open(harness.Context(t), bus.Config{URL: servers, Replicas: 3, Timeout: time.Second})
	runtest.NoError(t, err)
	defer b.Close()
	w := &faultsWorkload{round: round, untimed: true, journal: journal, onLines: func(int) { _, _ = os.Stdout.Write([]byte{effectMark}) }}
	node, err := w.node(b)
	runtest.NoError(t, err)
	runtest.NoError(t, node.Start(t.Context()))
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test that started it
	now, cancel := context.WithCancel(t.Context())
	cancel()
	node.Stop(now)
}

// effectMark is that byte.
const effectMark = '.'
