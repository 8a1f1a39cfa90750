package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
)

// saveHistory writes a session as an archive file below the run's store. lash-replay can read the archive; it cannot read the
// store of one server of a cluster. A session that was never created has no file.
func saveHistory(ctx context.Context, b *bus.Bus, store string, id events.SessionID) (file string, err error) {
	dir := filepath.Join(store, "histories")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	file = filepath.Join(dir, string(id)+".lash")
	f, err := os.Create(file) //nolint:gosec // a file of the run
	if err != nil {
		return "", err
	}
	_, err = archive.Write(ctx, b.Log(), b, id, f)
	if errors.Is(err, events.ErrNoSession) {
		return "", errors.Join(f.Close(), os.Remove(file))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("keep the history of %s: %w", id, err)
	}
	return file, nil
}

// readHistory reads a session, visits its events, and returns what is wrong with its history.
func readHistory(ctx context.Context, b *bus.Bus, id events.SessionID, visit func(events.Seq, *events.Commit, *events.Event)) (v *projector.Verifier, broken []error, err error) {
	v = projector.NewVerifier(id)
	for e, err := range b.Log().Read(ctx, id, 1) {
		if err != nil {
			return v, nil, fmt.Errorf("read session %s: %w", id, err)
		}
		found, err := follow.Verify(ctx, b, v, e)
		if err != nil {
			return v, nil, fmt.Errorf("verify session %s: %w", id, err)
		}
		for _, violation := range found {
			broken = append(broken, fmt.Errorf("%s: %+v", id, violation))
		}
		for i := range e.Commit.Events {
			visit(e.Seq, e.Commit, &e.Commit.Events[i])
		}
	}
	return v, broken, nil
}

// saveList writes a list as a file of the run's store, one JSON object a line.
func saveList[T any](store, name string, list []T) error {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for i := range list {
		if err := out.Encode(&list[i]); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(store, name), lines.Bytes(), 0o600)
}
