package main

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

// archive is one session from a file. It implements [source].
type archive struct {
	session events.SessionID
	file    *events.Archive   // as it is in the file
	log     events.Log        // decrypted
	blobs   map[string][]byte // decrypted, by digest
	keys    *bodykey.Keys     // nil: none
}

func openArchive(path string, maxMiB int64, keys *bodykey.Keys) (*archive, error) {
	a, err := program.ReadArchive(path, maxMiB)
	if err != nil {
		return nil, err
	}
	if a.First > 1 {
		return nil, fmt.Errorf("%s begins at sequence %d: replay needs the history from its beginning", path, a.First)
	}
	blobs := sessionarchive.DecryptedBodies(a.Blobs, keys)
	return &archive{session: a.Session, file: a, log: sessionarchive.Decrypted(a.Log, keys), blobs: blobs, keys: keys}, nil
}

// Keys are the keys of the bodies; nil without them.
func (a *archive) Keys() *bodykey.Keys { return a.keys }

func (a *archive) Log() events.Log { return a.log }

// Lost implements [source]: an archive is one file.
func (a *archive) Lost(context.Context, events.SessionID) error { return nil }

func (a *archive) Sessions(context.Context) ([]events.SessionID, error) {
	return []events.SessionID{a.session}, nil
}

// Names is Sessions.
func (a *archive) Names(ctx context.Context) ([]events.SessionID, error) { return a.Sessions(ctx) }

// Candidates are none: an archive has no index.
func (a *archive) Candidates(context.Context, *index.Plan) (map[events.SessionID]*index.Row, error) {
	return map[events.SessionID]*index.Row{}, nil
}

// Blob finds a body by its digest. The archive reader has computed the digest.
func (a *archive) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	body, ok := a.blobs[ref.Digest]
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", ref.Digest, bus.ErrNotFound)
	}
	return body, nil
}

func (a *archive) Snapshot(context.Context, events.SessionID) (*follow.Snapshot, error) {
	return nil, nil
}

func (a *archive) Row(context.Context, events.SessionID) (*follow.Directory, error) {
	return nil, nil //nolint:nilnil // an archive has no directory
}

func (a *archive) State(ctx context.Context, session events.SessionID) (*projector.State, error) {
	return follow.ReadAt(ctx, a.log, a, session, math.MaxUint64)
}

// Tombstone is none: an archive has a history.
func (a *archive) Tombstone(context.Context, events.SessionID) (bus.Tombstone, error) {
	return bus.Tombstone{}, nil
}

// Redactions lists those of the file's header. An archive of an earlier version has none.
func (a *archive) Redactions(context.Context, events.SessionID) ([]events.RedactionRecord, error) {
	return a.file.Redactions, nil
}

// Erased lists nothing.
func (a *archive) Erased(context.Context) iter.Seq2[events.SessionID, error] {
	return func(func(events.SessionID, error) bool) {}
}

func (a *archive) Close() {}
