package main

import (
	"fmt"

	"github.com/lash-go/lash/events"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

// redaction is what --redact names.
type redaction struct {
	what  []string
	found map[string]bool
}

// of is the log without the payloads.
func (r *redaction) of(log events.Log) events.Log {
	if len(r.what) == 0 {
		return log
	}
	return sessionarchive.Redacted(log, func(e events.Entry, i int) bool {
		drops := false
		for _, what := range r.what {
			if sessionarchive.Names(what, e, i) {
				r.found[what], drops = true, true
			}
		}
		return drops
	})
}

// check reports a pattern that no event has: it is probably misspelled, and a payload would stay.
func (r *redaction) check(id events.SessionID) error {
	for _, what := range r.what {
		if !r.found[what] {
			return fmt.Errorf("--redact %s: no event of session %s has this kind or id; lash-replay events --json lists them", what, id)
		}
	}
	return nil
}
