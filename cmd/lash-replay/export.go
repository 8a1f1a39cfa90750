package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/lash-go/lash/cmd/internal/program"

	"github.com/lash-go/lash/events"
	sessionarchive "github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/exchange"
)

type exportCmd struct {
	Session  string `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	Out      string `short:"o" required:"" placeholder:"FILE" help:"File to write; with --all, the folder for a file of each session." writes:""`
	Format   string `default:"archive" help:"One of the formats above. Default: ${default}."`
	All      bool   `help:"Every session of the source, each in a file of the folder that -o names."`
	Key      string `placeholder:"FILE" help:"For record-cose: the ed25519 private key that signs: PKCS 8 PEM, or a node.key."`
	Children bool   `help:"For records: with the child sessions, each at the event that first names it."`
	Issuer   string `default:"lash" placeholder:"NAME" help:"For record-cose: the issuer that the signature claims. Default: ${default}."`
	Force    bool   `help:"Replace the file if it exists."`
	JSON     bool   `name:"json" help:"One object that says what was written; with --all, one a line."`
	redactFlags
}

// Help is shown by --help.
func (*exportCmd) Help() string {
	var list strings.Builder
	for _, f := range formats() {
		fmt.Fprintf(&list, "  %-12s %s\n", f.name, f.help)
	}
	return "Formats:\n\n" + list.String() +
		"\nWhat a format cannot hold is listed on standard error, and in \"lost\" with --json. The file appears when it is complete."
}

// written is the output of an export with --json.
type written struct {
	File      string           `json:"file"`
	Session   events.SessionID `json:"session"`
	First     events.Seq       `json:"first"`
	Last      events.Seq       `json:"last"`
	Commits   int64            `json:"commits"`
	Events    int64            `json:"events"`
	Blobs     int64            `json:"blobs"`
	BlobBytes int64            `json:"blob_bytes"`
	Bytes     int64            `json:"bytes"`              // of the file
	Redacted  int64            `json:"redacted,omitempty"` // events without payload

	Redactions []*storedRedaction      `json:"redactions,omitempty"`
	Guessable  *sessionarchive.Remains `json:"guessable,omitempty"`

	Format string          `json:"format"`
	Lost   []exchange.Loss `json:"lost"` // what the format cannot hold
}

// Run exports one session, or all.
func (c *exportCmd) Run(ctx context.Context, e *env) error {
	if c.Out == "-" {
		return errors.New("--out -: export writes files, which appear when they are complete: name one")
	}
	f, err := formatOf(c.Format)
	if err != nil {
		return err
	}
	if (c.Key != "") != (c.Format == formatCOSE) {
		return fmt.Errorf("--key FILE goes with --format %s, and is required there", formatCOSE)
	}
	if len(c.Redact) > 0 && c.Format != formatArchive {
		return fmt.Errorf("--redact: the format %s has no digests: use archive", c.Format)
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.Children && !strings.HasPrefix(c.Format, "record") {
		return fmt.Errorf("--children: the format %s has one session: use record, record-cbor or %s", c.Format, formatCOSE)
	}
	if c.All {
		return c.exportAll(ctx, e, f)
	}
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.export(ctx, e, f, src, id, c.Out)
}

func (c *exportCmd) exportAll(ctx context.Context, e *env, f format) error {
	if c.Session != "" {
		return errors.New("name a session or give --all, not both")
	}
	if err := os.MkdirAll(c.Out, 0o750); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return e.eachReadable(ctx, nil, func(src source, id events.SessionID) error {
		return c.export(ctx, e, f, src, id, filepath.Join(c.Out, string(id)+"."+f.extension))
	})
}

// export writes a temporary file, reads an archive back, and renames it.
func (c *exportCmd) export(ctx context.Context, e *env, f format, src source, id events.SessionID, out string) error {
	if _, err := os.Lstat(out); err == nil && !c.Force {
		return fmt.Errorf("%s exists: --force replaces it", out)
	}
	temp, err := os.CreateTemp(filepath.Dir(out), filepath.Base(out)+".*.tmp")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // already renamed after success
	w := written{File: out, Session: id, Format: c.Format, Lost: []exchange.Loss{}}
	if c.Format == formatArchive {
		err = w.archive(ctx, e, src, temp, &c.redactFlags)
	} else {
		err = w.document(ctx, c, f, src, temp)
	}
	if err != nil {
		_ = temp.Close() // it may be closed
		return err
	}
	if err := os.Rename(temp.Name(), out); err != nil {
		return err
	}
	return w.print(e, c.JSON)
}

// archive writes an archive, and reads it back.
func (w *written) archive(ctx context.Context, e *env, src source, temp *os.File, redact *redactFlags) error {
	done, records, err := w.history(ctx, e, src, temp, redact)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	w.Bytes, err = readBack(ctx, temp.Name(), w.Session, done)
	if err == nil && done.Unknown > 0 {
		e.Printf("%s of kinds that this version does not know: bodies that they refer to are not in the archive", program.Number(done.Unknown, "event"))
	}
	if err == nil && done.Locked > 0 {
		e.Printf("%s with a key that is not here: bodies that they refer to are not in the archive, --bodies-key FILE adds them", program.Number(done.Locked, "encrypted event"))
	}
	w.First, w.Last, w.Commits, w.Events, w.Blobs, w.BlobBytes = done.First, done.Last, done.Commits, done.Events, done.Blobs, done.BlobBytes
	w.Redacted, w.Redactions = done.Redacted, shownRedactions(records)
	if done.Remains.Any() {
		w.Guessable = &done.Remains
	}
	return err
}

// history writes the archive's content. One that was redacted meanwhile is written again, with the record of that.
func (w *written) history(ctx context.Context, e *env, src source, temp *os.File, redact *redactFlags) (sessionarchive.Contents, []events.RedactionRecord, error) {
	for {
		before, err := src.Redactions(ctx, w.Session)
		if err != nil {
			return sessionarchive.Contents{}, nil, err
		}
		log, records, err := redact.of(ctx, e, src, w.Session)
		if err != nil {
			return sessionarchive.Contents{}, nil, err
		}
		done, err := sessionarchive.Write(ctx, log, src, w.Session, temp, records...)
		now, recordsErr := src.Redactions(ctx, w.Session)
		if recordsErr != nil || len(now) <= len(before) {
			return done, records, err
		}
		if _, err := temp.Seek(0, io.SeekStart); err != nil {
			return done, nil, err
		}
		if err := temp.Truncate(0); err != nil {
			return done, nil, err
		}
	}
}

// print says what was written, and what was lost.
func (w *written) print(e *env, asJSON bool) error {
	if asJSON {
		return e.writeJSON(w)
	}
	for _, l := range w.Lost {
		e.Printf("%s does not hold %s (%d)", w.File, l.What, l.Count)
	}
	if w.Format != formatArchive {
		_, err := fmt.Fprintf(e.Out, "%s: session %s as %s, %s\n", w.File, w.Session, w.Format, program.Number(w.Bytes, "byte"))
		return err
	}
	if w.Redacted > 0 {
		e.Printf("%s: %s redacted", w.File, program.Number(w.Redacted, "event"))
	}
	if w.Guessable != nil {
		e.Printf("%s: %s", w.File, w.Guessable)
	}
	_, err := fmt.Fprintf(e.Out, "%s: session %s, %s in %s, %s of %s, %s\n", w.File, w.Session, program.Number(w.Events, "event"),
		program.Number(w.Commits, "commit"), program.Number(w.Blobs, "blob"), program.Number(w.BlobBytes, "byte"), program.Number(w.Bytes, "byte"))
	return err
}

// readBack checks that the file has what was written.
func readBack(ctx context.Context, path string, id events.SessionID, want sessionarchive.Contents) (size int64, err error) {
	a, err := program.ReadArchive(path, math.MaxInt64) // a file of this program: no limit
	if err != nil {
		return 0, fmt.Errorf("read back: %w", err)
	}
	last, err := a.Log.Last(ctx, id)
	if err != nil {
		return 0, fmt.Errorf("read back: %w", err)
	}
	if a.Session != id || a.First != want.First || last != want.Last || int64(len(a.Blobs)) != want.Blobs {
		return 0, fmt.Errorf("read back %s: it does not hold what was written", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
