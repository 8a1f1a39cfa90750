package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/events/localfile"
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

// errDamaged: the file is an archive and does not verify.
var errDamaged = errors.New("the archive is damaged")

func openArchive(path string, maxMiB int64, keys *bodykey.Keys) (*archive, error) {
	f, err := localfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: lash-replay export writes an archive", err)
	}
	defer func() { _ = f.Close() }()
	whole, isArchive, err := events.PeekArchive(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: lash-replay export writes an archive", path, err) // for example a directory
	}
	if !isArchive {
		return nil, fmt.Errorf("%s is not an archive: lash-replay export writes one", path)
	}
	a, err := events.ReadArchive(whole, min(maxMiB, math.MaxInt64>>20)<<20)
	if errors.Is(err, events.ErrTooLarge) {
		return nil, fmt.Errorf("%s: %w: --max-mib allows more", path, err)
	}
	if errors.Is(err, events.ErrFutureVersion) {
		return nil, fmt.Errorf("%s: %w: use a newer lash-replay", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w; lash-replay export writes another one from a store", path, errDamaged, err)
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

func (a *archive) Sessions(context.Context) ([]events.SessionID, error) {
	return []events.SessionID{a.session}, nil
}

// Names is Sessions.
func (a *archive) Names(ctx context.Context) ([]events.SessionID, error) { return a.Sessions(ctx) }

// Index lists nothing: an archive has no index.
func (a *archive) Index(context.Context) iter.Seq2[[]byte, error] {
	return func(func([]byte, error) bool) {}
}

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
