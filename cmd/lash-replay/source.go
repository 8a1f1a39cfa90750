package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/access"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// sourceFlags say where histories come from.
type sourceFlags struct {
	NATS         string `name:"nats" placeholder:"URL" group:"Source" help:"Running server, comma-separated URLs."`
	Store        string `placeholder:"DIR" group:"Source" help:"Store directory of a node with an embedded server, which may run."`
	File         string `placeholder:"FILE" group:"Source" help:"Archive file, as export writes it."`
	MaxMiB       int64  `name:"max-mib" default:"1024" placeholder:"N" group:"Source" help:"Refuse an archive file whose content is larger, in MiB: it is read into memory. Default: ${default}."`
	access.Flags `group:"Source"`
}

// source is where histories come from. It has two forms: an archive, and the
// bus, which reads a running server and a store alike.
type source interface {
	// Log holds the histories. It is only read.
	Log() events.Log
	// Sessions lists the histories, sorted.
	Sessions(ctx context.Context) ([]events.SessionID, error)
	// Blob gives a body kept outside the log, checked.
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
	// Snapshot is what is stored of a session besides its history; nil when there is nothing.
	Snapshot(ctx context.Context, session events.SessionID) (*follow.Snapshot, error)
	// Row is a session as the directory lists it; nil where there is no row, or one that is behind the session's end.
	Row(ctx context.Context, session events.SessionID) (*follow.Directory, error)
	// State is a session at its end, by the fastest way. It may be partial.
	State(ctx context.Context, session events.SessionID) (*projector.State, error)
	Close()
}

// given counts the sources that were named.
func (f *sourceFlags) given() int {
	n := 0
	for _, s := range []string{f.NATS, f.Store, f.File} {
		if s != "" {
			n++
		}
	}
	return n
}

// defaults takes the store that nodes have by default, where no source is named, there is that store, and no target is a file.
func (f *sourceFlags) defaults(targets ...string) {
	isFile := func(target string) bool {
		_, err := os.Stat(target)
		return target != "" && err == nil
	}
	if f.given() == 0 && !f.Named() && isStore(access.DefaultStore) && !slices.ContainsFunc(targets, isFile) {
		f.Store = access.DefaultStore
	}
}

// where are the flags that name the source, each after a space.
func (f *sourceFlags) where() string {
	switch {
	case f.NATS != "":
		return " --nats " + access.Quoted(bus.Redacted(f.NATS)) + f.Where()
	case f.File != "":
		return " --file " + access.Quoted(f.File)
	case f.Store == "" || f.Store == access.DefaultStore:
		return f.Where()
	}
	return " --store " + access.Quoted(f.Store) + f.Where()
}

// open opens the source that the flags name. Without one, file is an archive.
func (e *env) open(ctx context.Context, file string) (source, error) {
	f := e.source
	if f.given() > 1 {
		return nil, errors.New("--nats, --store and --file exclude each other: give one")
	}
	if f.NATS == "" && f.Named() {
		return nil, errors.New("--creds and --tls-... go with --nats URL, which is missing")
	}
	switch {
	case f.NATS != "":
		return openServer(ctx, f, f.NATS, access.DefaultStore, e.stderr)
	case f.Store != "":
		return openStore(ctx, f, e.stderr)
	case f.File != "":
		return openArchive(f.File, f.MaxMiB)
	case file == "":
		return nil, errors.New("no source: there is no store in .lash: give --store DIR, --nats URL, --file FILE, or an archive file as argument")
	}
	s, err := openArchive(file, f.MaxMiB)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (an argument without a source is an archive file; for a session name its source with --nats URL or --store DIR)", err)
	}
	return s, err
}

// openTarget opens the source and finds the session that target names: where
// no source was given it is an archive file, and an archive has one session only.
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
	if err := e.mustBeThere(ctx, src, id); err != nil {
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
			return fmt.Errorf("there is no such file: %s", id)
		}
		return fmt.Errorf("session %q: %w", id, err)
	}
	if _, err := src.Log().Last(ctx, id); errors.Is(err, events.ErrNoSession) {
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
