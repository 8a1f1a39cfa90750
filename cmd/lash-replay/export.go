package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/lash-go/lash/events"
	sessionarchive "github.com/lash-go/lash/session/archive"
)

type exportCmd struct {
	Session string `arg:"" optional:"" help:"Session, or an archive file when no source is given."`
	Out     string `short:"o" required:"" placeholder:"FILE" help:"File to write."`
	Force   bool   `help:"Replace the file if it exists."`
	JSON    bool   `name:"json" help:"One object that says what was written."`
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
	Bytes     int64            `json:"bytes"` // of the file
}

// Run writes the archive to a temporary file, reads it back, and renames it.
func (c *exportCmd) Run(ctx context.Context, e *env) error {
	if _, err := os.Lstat(c.Out); err == nil && !c.Force {
		return fmt.Errorf("%s exists: --force replaces it", c.Out)
	}
	src, id, err := e.openTarget(ctx, c.Session)
	if err != nil {
		return err
	}
	defer src.Close()
	temp, err := os.CreateTemp(filepath.Dir(c.Out), filepath.Base(c.Out)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // already renamed after success
	done, err := sessionarchive.Write(ctx, src.Log(), src, id, temp)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	size, err := readBack(ctx, temp.Name(), id, done)
	if err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), c.Out); err != nil {
		return err
	}
	if done.Unknown > 0 {
		e.Printf("%d events are of kinds that this version does not know: bodies that they refer to are not in the archive", done.Unknown)
	}
	if c.JSON {
		return e.writeJSON(written{c.Out, id, done.First, done.Last, done.Commits, done.Events, done.Blobs, done.BlobBytes, size})
	}
	_, err = fmt.Fprintf(e.Out, "%s: session %s, %d events in %d commits, %d blobs of %d bytes, %d bytes\n",
		c.Out, id, done.Events, done.Commits, done.Blobs, done.BlobBytes, size)
	return err
}

// readBack checks that the file has what was written.
func readBack(ctx context.Context, path string, id events.SessionID, want sessionarchive.Contents) (size int64, err error) {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	a, err := events.ReadArchive(f, math.MaxInt64) // a file of this program: no limit
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
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
