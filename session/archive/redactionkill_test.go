package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
)

// TestLongRedactKilled kills the redaction at each request. The history is whole or redacted, with its record, at each time;
// a repetition or an archiver completes it.
func TestLongRedactKilled(t *testing.T) {
	t.Parallel()
	for _, repeat := range []bool{false, true} {
		t.Run(fmt.Sprint("repeat_", repeat), func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{}) // its archivers reach no session of another case
			b := bustest.Open(t, server)
			archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
			whole, redacted := 0, 0
			for k := 1; ; k++ {
				id := events.SessionID(fmt.Sprintf("s-%t-%d", repeat, k))
				before := closed(t, b, id, secretHistory(""))
				done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
					_, err := archive.Redact(ctx, victim, id, record(contents...), nil)
					return err
				})
				records := mustRedactions(t, b, id)
				if repeat {
					_, err := archive.Redact(t.Context(), b, id, record(contents...), nil)
					runtest.NoError(t, err)
				}
				runtest.NoError(t, archiver.Retain(t.Context(), time.Now()))
				runtest.NoError(t, archiver.Retain(t.Context(), time.Now().Add(time.Hour)))
				if after := leaves(t, b, id); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Fatalf("%s: leaves: got %v, want %v", id, after, before)
				}
				now := mustRedactions(t, b, id)
				left := inHistory(t, b, id)
				switch {
				case len(now) == 0 && left == 4 && !repeat:
					whole++
				case len(now) == 1 && left == 0:
					redacted++
					isPurged(t, b, id)
				default:
					t.Fatalf("%s: got %d records and %d commits with the secret, %d records at the death", id, len(now), left, len(records))
				}
				if done {
					break
				}
			}
			if redacted < 3 || !repeat && whole < 3 {
				t.Errorf("got %d whole and %d redacted, want both", whole, redacted)
			}
		})
	}
}

func mustRedactions(t *testing.T, b *bus.Bus, id events.SessionID) []events.RedactionRecord {
	t.Helper()
	list, err := b.Redactions(t.Context(), id)
	runtest.NoError(t, err)
	return list
}

// inHistory counts the commits with the secret.
func inHistory(t *testing.T, b *bus.Bus, id events.SessionID) (n int) {
	t.Helper()
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		if bytes.Contains(e.Data, []byte(secret)) {
			n++
		}
	}
	return n
}

// isPurged checks the rows of a redacted session.
func isPurged(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	index, _ := b.Index()
	for name, rows := range map[string]bus.Rows{"snapshot": b.Snapshots(), "index": index, "directory": b.Directory()} {
		row, err := rows.Get(t.Context(), id)
		runtest.NoError(t, err)
		if bytes.Contains(row.Value, []byte(secret)) || name == "snapshot" && row.Revision != 0 {
			t.Errorf("%s of %s: got %q, want no secret", name, id, row.Value)
		}
		var d follow.Directory
		if name == "directory" && (json.Unmarshal(row.Value, &d) != nil || d.Redacting || d.Place != follow.PlaceCold || d.Status != projector.StatusClosed) {
			t.Errorf("row of %s: got %+v, want a closed cold session without the mark", id, d)
		}
	}
}

// TestLateSnapshot: a node that was paused writes a snapshot of what it folded before the redaction. No reader uses it, and an archiver
// purges it.
func TestLateSnapshot(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	closed(t, b, "s", secretHistory(""))
	late, err := follow.At(t.Context(), b.Log(), b, "s", math.MaxUint64)
	runtest.NoError(t, err)
	_, err = archive.Redact(t.Context(), b, "s", record(contents...), nil)
	runtest.NoError(t, err)
	_, err = follow.Save(t.Context(), b, late)
	runtest.NoError(t, err)
	if len(holding(t, b, "s")) == 0 {
		t.Fatal("the late snapshot has no secret")
	}
	for range 2 {
		s, err := follow.Whole(t.Context(), b, "s")
		runtest.NoError(t, err)
		if view, err := s.View(); err != nil || strings.Contains(fmt.Sprint(view), secret) {
			t.Errorf("view: got %v, %v, want no secret", view, err)
		}
	}
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
	for _, at := range []time.Duration{0, time.Hour} {
		runtest.NoError(t, archiver.Retain(t.Context(), time.Now().Add(at)))
	}
	if left := holding(t, b, "s"); len(left) > 0 {
		t.Errorf("the secret is left in %v", left)
	}
	isPurged(t, b, "s")
}

// TestRestoreRefusesRedacted: no session goes on from an archive without some payloads.
func TestRestoreRefusesRedacted(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	closed(t, b, "s", secretHistory(""))
	var file bytes.Buffer
	log := archive.Redacted(b.Log(), func(e events.Entry, i int) bool { return events.NamesEvent("tool.*", e, i) })
	_, err := archive.Write(t.Context(), log, b, "s", &file)
	runtest.NoError(t, err)
	a, err := events.ReadArchive(&file, 1<<30)
	runtest.NoError(t, err)
	other := bustest.Start(t)
	_, err = archive.Restore(t.Context(), other, a)
	runtest.WantError(t, "restore", err, archive.ErrRedacted)
	_, err = other.Log().Last(t.Context(), "s")
	runtest.WantError(t, "after the refusal", err, events.ErrNoSession)
}

// TestReadEndsAtRemoval redacts, or erases, a session while another process reads its history. Once that process knows, the read goes on
// with what is left of it: digests of payloads, or an error.
func TestReadEndsAtRemoval(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(*bus.Bus) error{
		"redaction": func(b *bus.Bus) error {
			_, err := archive.Redact(t.Context(), b, "s", record(contents...), nil)
			return err
		},
		"erasure": func(b *bus.Bus) error {
			_, err := follow.Erase(t.Context(), b, "s", nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked to"}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			b, reader := bustest.Open(t, server), bustest.Open(t, server)
			closed(t, b, "s", secretHistory(""))
			_, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), "s")
			runtest.NoError(t, err)
			knows := make(chan events.SessionID, 10)
			reader.OnRemoval(func(id events.SessionID) { knows <- id })
			next, stop := iter.Pull2(reader.Log().Read(t.Context(), "s", 1))
			defer stop()
			if e, err, _ := next(); err != nil || e.Seq != 1 {
				t.Fatalf("first: got %d, %v", e.Seq, err)
			}
			runtest.NoError(t, remove(b))
			runtest.Equal(t, "removed", bustest.Receive(t, "the removal", knows), "s")
			read := 1
			for e, err, ok := next(); ok; e, err, ok = next() {
				if err != nil {
					if name != "erasure" || !errors.As(err, new(*events.ErasedError)) {
						t.Errorf("got %v", err)
					}
					return
				}
				if read++; int(e.Seq) != read || bytes.Contains(e.Data, []byte(secret)) {
					t.Errorf("sequence %d: got %d, and the secret: %t", read, e.Seq, bytes.Contains(e.Data, []byte(secret)))
				}
			}
			if name == "erasure" || read != len(secretHistory("")) {
				t.Errorf("got %d commits", read)
			}
		})
	}
}
