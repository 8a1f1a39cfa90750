package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/point"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// sourceFlags name the source of histories.
type sourceFlags struct {
	NATS          string      `name:"nats" placeholder:"URL" group:"Source" help:"Running server, comma-separated URLs."`
	Store         string      `placeholder:"DIR" group:"Source" help:"Store directory of a node with an embedded server, which may run."`
	File          string      `placeholder:"FILE" group:"Source" help:"Archive file, as export writes it."`
	MaxMiB        int64       `name:"max-mib" default:"1024" placeholder:"N" group:"Source" help:"Refuse an archive file whose content is larger, in MiB: it is read into memory. Default: ${default}."`
	At            point.Point `placeholder:"SEQ|TIME|EVENT" group:"Source" help:"Read histories up to a sequence, an event (12.0, or its id) or a time (2026-11-25T18:30:00Z, or 15m for so long ago), as if they ended there. Of several sessions give a time. Defaults to the end."`
	connect.Flags `group:"Source"`

	logger *zap.Logger // of the connection; nil is silent
}

// source is the source of histories. It has two implementations: an archive, and the bus of a running server or a
// store.
type source interface {
	// Log has the histories. It is only read.
	Log() events.Log
	// Sessions lists the histories, sorted.
	Sessions(ctx context.Context) ([]events.SessionID, error)
	// Names lists the histories, in no order, with those that have no commit yet. It is faster than Sessions.
	Names(ctx context.Context) ([]events.SessionID, error)
	// Index lists the encoded index rows, in no order.
	Index(ctx context.Context) iter.Seq2[[]byte, error]
	// Candidates tests the index rows, see [follow.Candidates].
	Candidates(ctx context.Context, plan *index.Plan) (map[events.SessionID]*index.Row, error)
	// Blob returns a body stored outside the log, checked against its digest.
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
	// Keys are the keys of bodies; nil without them.
	Keys() *bodykey.Keys
	// Snapshot is a session's stored snapshot; nil where there is none.
	Snapshot(ctx context.Context, session events.SessionID) (*follow.Snapshot, error)
	// Row is a session's row of the directory; nil where there is none, or where it is older than the session's end.
	Row(ctx context.Context, session events.SessionID) (*follow.Directory, error)
	// Tombstone is the tombstone of an erased session; zero for any other one.
	Tombstone(ctx context.Context, session events.SessionID) (bus.Tombstone, error)
	// Redactions lists what was redacted in a history, in order.
	Redactions(ctx context.Context, session events.SessionID) ([]events.RedactionRecord, error)
	// Erased lists the erased sessions, in no order.
	Erased(ctx context.Context) iter.Seq2[events.SessionID, error]
	// State is a session's state at its end, by the fastest way. It may be partial.
	State(ctx context.Context, session events.SessionID) (*projector.State, error)
	Close()
}

// count counts the sources that flags name.
func (f *sourceFlags) count() int {
	n := 0
	for _, s := range []string{f.NATS, f.Store, f.File} {
		if s != "" {
			n++
		}
	}
	return n
}

// defaults selects the default store of nodes, where no flag names a source, that store exists, and no target is a
// file.
func (f *sourceFlags) defaults(targets ...string) {
	isFile := func(target string) bool {
		_, err := os.Stat(target)
		return target != "" && err == nil
	}
	if f.count() == 0 && !f.Named() && isStore(connect.DefaultStore) && !slices.ContainsFunc(targets, isFile) {
		f.Store = connect.DefaultStore
	}
}

// where are the flags that name the source, each after a space.
func (f *sourceFlags) where() string {
	switch {
	case f.NATS != "":
		return " --nats " + connect.Quoted(bus.WithoutPasswords(f.NATS)) + f.Where()
	case f.File != "":
		return " --file " + connect.Quoted(f.File)
	case f.Store == "" || f.Store == connect.DefaultStore:
		return f.Where()
	}
	return " --store " + connect.Quoted(f.Store) + f.Where()
}

// open opens the source of the flags. Without such a flag, file is an archive.
func (e *env) open(ctx context.Context, file string) (source, error) {
	f := e.source
	keys, err := f.BodiesKeys()
	if err != nil {
		return nil, err
	}
	if f.count() > 1 {
		return nil, errors.New("--nats, --store and --file exclude each other: give one")
	}
	if f.NATS == "" && f.Named() {
		return nil, errors.New("--creds and --tls-... go with --nats URL, which is missing")
	}
	switch {
	case f.NATS != "":
		return openServer(ctx, f, f.NATS, connect.DefaultStore, e.Streams)
	case f.Store != "":
		return openStore(ctx, f, e.Streams)
	case f.File != "":
		defer e.NoteWait("%s to be read", f.File)()
		return openArchive(f.File, f.MaxMiB, keys)
	case file == "":
		return nil, errors.New("no source: there is no store in .lash: give --store DIR, --nats URL, --file FILE, or an archive file as argument")
	}
	defer e.NoteWait("%s to be read", file)()
	s, err := openArchive(file, f.MaxMiB, keys)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (an argument without a source is an archive file; for a session name its source with --nats URL or --store DIR)", err)
	}
	return s, err
}

// openTarget opens the source and finds the session that target names. Without a source flag target is an archive
// file, which has one session.
func (e *env) openTarget(ctx context.Context, target string) (source, events.SessionID, error) {
	e.source.defaults(target)
	src, err := e.open(ctx, target)
	if err != nil {
		return nil, "", err
	}
	id := events.SessionID(target)
	if a, ok := src.(*archive); ok && (e.source.File == "" || target == "") {
		id = a.session
	}
	err = e.mustBeThere(ctx, src, id)
	if err == nil {
		src, err = e.cutAt(ctx, src, id)
	}
	if err != nil {
		src.Close()
		return nil, "", err
	}
	return src, id, nil
}

func (e *env) mustBeThere(ctx context.Context, src source, id events.SessionID) error {
	if id == "" {
		return fmt.Errorf("which session? lash-replay ls%s lists them", e.source.where())
	}
	if err := events.CheckToken("session", id); err != nil {
		if missingFile(string(id)) {
			return fmt.Errorf("there is no such file: %s; lash-replay ls%s lists the sessions of the source", id, e.source.where())
		}
		return fmt.Errorf("session %q: %w", id, err)
	}
	if _, err := src.Log().Last(ctx, id); errors.As(err, new(*events.ErasedError)) {
		return e.withTombstone(ctx, src, id, err)
	} else if errors.Is(err, events.ErrNoSession) {
		return fmt.Errorf("there is no session %s here: lash-replay ls%s lists what there is", id, e.source.where())
	} else if err != nil {
		return err
	}
	return nil
}

// missingFile reports whether a target that can be no session is the name of a file that does not exist.
func missingFile(target string) bool {
	_, err := os.Stat(target)
	return errors.Is(err, os.ErrNotExist) && (strings.Contains(target, "/") || strings.HasSuffix(target, ".lash"))
}
