package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Archiver makes sessions cold that had no work for a while. Any number may
// run at once, anywhere, and die at any line: see [bus.Bus.Archive].
type Archiver struct {
	b     *bus.Bus
	after time.Duration
	log   *zap.Logger
}

// NewArchiver makes an archiver of sessions that had no work for that long. A nil logger is silent.
func NewArchiver(b *bus.Bus, after time.Duration, log *zap.Logger) *Archiver {
	if log == nil {
		log = zap.NewNop()
	}
	return &Archiver{b: b, after: after, log: log.Named("archiver")}
}

// Run looks at every hot session now and then, until ctx ends.
func (a *Archiver) Run(ctx context.Context) {
	every := min(max(a.after/8, time.Second), time.Minute)
	for sleep(ctx, every); ctx.Err() == nil; sleep(ctx, every) {
		for hot, err := range a.b.Hot(ctx) {
			if err == nil && a.due(hot) {
				_, err = a.Archive(ctx, hot.ID)
			}
			if err != nil && ctx.Err() == nil {
				a.log.Warn("archive", zap.String("session", string(hot.ID)), zap.Error(err))
			}
		}
	}
}

// due reports whether it is time to look. A sealed stream is of an archiver that died.
func (a *Archiver) due(hot bus.HotSession) bool {
	return hot.Sealed || time.Since(hot.Moved) >= a.after
}

// snapshotCold is how many commits a cold session has at most that is folded
// from its archive; a longer one keeps its snapshot, so that opening it costs the same.
const snapshotCold = 512

// Archive makes a session cold. It is false where the session has work.
func (a *Archiver) Archive(ctx context.Context, session events.SessionID) (bool, error) {
	s, err := Open(ctx, a.b, session)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return false, nil // a creator died before its first commit, or has not made it yet
	case err != nil || !restful(s):
		return false, err
	}
	if s.Seq > snapshotCold {
		if _, err := Save(ctx, a.b, s); err != nil {
			return false, err
		}
	}
	err = a.b.Archive(ctx, session, s.Seq)
	if errors.As(err, new(*events.ConflictError)) {
		return false, nil // it has work again
	}
	if err == nil {
		err = Sync(ctx, a.b.Log(), s) // it may have moved just before it was sealed
	}
	if err != nil {
		return false, err
	}
	if err := a.settle(ctx, s); err != nil { // before the stream goes, so that whoever finds that repeats it
		return false, err
	}
	return true, a.b.Discard(ctx, session)
}

// restful reports whether nothing runs, waits or is about to run.
func restful(s *projector.State) bool {
	if s.Status == projector.StatusOpening || !s.Idle() {
		return false
	}
	for i := range s.Tasks {
		if s.Tasks[i].Live() {
			return false
		}
	}
	for i := range s.Monitors {
		if s.Monitors[i].Armed {
			return false
		}
	}
	return true
}

// settle writes the directory's row.
func (a *Archiver) settle(ctx context.Context, s *projector.State) error {
	row := RowOf(s)
	row.Place = PlaceCold
	value, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("archive %s: %w", s.Session, err)
	}
	return replace(ctx, a.b.Directory(), s.Session, value, func(old []byte) bool {
		var have Directory
		return json.Unmarshal(old, &have) != nil || have.Seq < s.Seq || have.Seq == s.Seq && have.Place != PlaceCold
	})
}
