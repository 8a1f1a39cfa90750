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
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/projector/follow"
	textsearch "github.com/lash-go/lash/session/search"
)

// sourceFlags name the source of histories.
type sourceFlags struct {
	NATS          string        `name:"nats" xor:"source" placeholder:"URL" group:"Source" help:"Running server, comma-separated URLs."`
	Store         string        `xor:"source" placeholder:"DIR" group:"Source" help:"Store directory of a node with an embedded server, which may run."`
	File          string        `xor:"source" placeholder:"FILE" group:"Source" help:"Archive file, as export writes it."`
	MaxMiB        int64         `name:"max-mib" default:"1024" placeholder:"N" group:"Source" help:"Refuse an archive file whose content is larger, in MiB: it is read into memory. Default: ${default}."`
	At            program.Point `placeholder:"SEQ|TIME|EVENT" group:"Source" help:"Read histories up to a sequence, an event (12.0, or its id) or a time (2026-11-25T18:30:00Z, or 15m for so long ago), as if they ended there. Of several sessions give a time. Defaults to the end."`
	connect.Flags `group:"Source"`

	logger *zap.Logger // of the connection; nil is silent
}

// source is the source of histories. It has two implementations: an archive, and the bus of a running server or a
// store.
type source interface {
	textsearch.Source // a state may be partial, and is read by the fastest way

	// Lost is the error of a session that has lost commits after those that Log has: a [*bus.CutOffError].
	Lost(ctx context.Context, session events.SessionID) error
	// Sessions lists the histories, sorted.
	Sessions(ctx context.Context) ([]events.SessionID, error)
	// Names are the histories, with those that have no commit yet, for a search. It is faster than Sessions.
	Names(ctx context.Context) ([]events.SessionID, error)
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
	Close()
}

// named reports whether a flag names the source.
func (f *sourceFlags) named() bool { return f.NATS+f.Store+f.File != "" }

// defaults selects the default store of nodes, where no flag names a source, that store exists, and no target is a
// file.
func (f *sourceFlags) defaults(targets ...string) {
	if !f.named() && !f.Named() && isStore(connect.DefaultStore) && !slices.ContainsFunc(targets, exists) {
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
	if f.NATS == "" && f.Named() {
		return nil, errors.New("--creds and --tls-... go with --nats URL, which is missing")
	}
	switch {
	case f.NATS != "":
		return openServer(ctx, f, f.NATS, connect.DefaultStore, keys, e.Streams)
	case f.Store != "":
		return openStore(ctx, f, keys, e.Streams)
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
		e.noteLost(ctx, src, id)
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

// noteLost says that a session has lost commits after those that are read.
func (e *env) noteLost(ctx context.Context, src source, id events.SessionID) {
	if lost, ok := lostIn(src.Lost(ctx, id), id); ok {
		e.Printf("%v", connect.Advised(lost))
	}
}

// exists reports whether a target is the name of a file.
func exists(target string) bool {
	_, err := os.Stat(target)
	return target != "" && err == nil
}

// missingFile reports whether a target that can be no session is the name of a file that does not exist.
func missingFile(target string) bool {
	return !exists(target) && (strings.Contains(target, "/") || strings.HasSuffix(target, ".lash"))
}
