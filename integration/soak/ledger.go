package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/lash-go/lash/events"
)

// entry is a line of a ledger: one request to a model or a tool.
type entry struct {
	Session events.SessionID
	Effect  events.EffectID
	Worker  events.WorkerID
	At      int64 // Unix milliseconds
}

func (e entry) String() string {
	return fmt.Sprintf("%s %s %s %d\n", e.Session, e.Effect, e.Worker, e.At)
}

// readLedger reads a ledger, by session. It ignores an incomplete last line: its writer died before the effect ran.
func readLedger(name string, into map[events.SessionID][]entry) error {
	data, err := os.ReadFile(name) //nolint:gosec // a file of the run
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		var e entry
		if _, err := fmt.Sscanf(line, "%s %s %s %d\n", &e.Session, &e.Effect, &e.Worker, &e.At); err == nil && strings.HasSuffix(line, "\n") {
			into[e.Session] = append(into[e.Session], e)
		}
	}
	return nil
}
