package main

import (
	"context"

	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
)

// atFlag is the flag --at of the commands that read one history.
type atFlag struct {
	At point.Point `placeholder:"SEQ|TIME|EVENT" help:"As it was at a sequence, an event (12.0, or its id) or a time (2026-11-25T18:30:00Z, or 15m for so long ago). Defaults to the end."`
}

// seq is the last sequence of a history up to a point.
func (e *env) seq(ctx context.Context, log events.Log, id events.SessionID, flag string, p point.Point) (events.Seq, error) {
	return p.Seq(ctx, log, id, flag, e.now())
}
