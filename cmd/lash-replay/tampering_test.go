package main

import (
	"bytes"
	"flag"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

var tampering = flag.Int("tampering", runtest.Of(40, 400), "number of random changes of TestLongTampering")

// stored is a commit as a tampering program has it.
type stored struct {
	data []byte
	id   events.CommitID // empty: it cannot be decoded
}

// archiveOf writes an archive with this program's own encoder.
func archiveOf(t *testing.T, session events.SessionID, list []stored, bodies map[string][]byte) string {
	t.Helper()
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, session, 1)
	runtest.NoError(t, err)
	for i := range list {
		runtest.NoError(t, w.Commit(events.Entry{Seq: events.Seq(i + 1), Commit: &events.Commit{Session: session}, Data: list[i].data}))
	}
	for _, body := range bodies {
		runtest.NoError(t, w.Blob(body))
	}
	runtest.NoError(t, w.Close())
	path := filepath.Join(t.TempDir(), "a.lash")
	runtest.NoError(t, os.WriteFile(path, file.Bytes(), 0o600))
	return path
}

// TestLongTampering changes archives and streams at random, most with this program's own encoder: every changed commit under a
// head is named, and untouched histories have no fault. -tampering sets the number of changes.
func TestLongTampering(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	sessions := map[events.SessionID]int{"one": 1, "three": 3, "many": 20}
	runtest.NoError(t, makeSignedTurns(store, sessions))
	key := filepath.Join(store, "keys", "tenant.pub")
	live := startTampered(t)
	kinds := forgeries()
	list := slices.Sorted(maps.Keys(kinds))
	each := max(1, *tampering/len(sessions))
	for id := range sessions {
		head := filepath.Join(t.TempDir(), "head")
		command(t, "verify", string(id), "--store", store, "--write-head", head)
		command(t, "export", string(id), "--store", store, "-o", filepath.Join(filepath.Dir(head), "whole.lash"))
		untouched, bodies := commitsIn(t, filepath.Join(filepath.Dir(head), "whole.lash"))
		live.store(t, bodies)
		t.Run(string(id), func(t *testing.T) {
			a := &attack{Rand: rand.New(rand.NewPCG(7, uint64(len(untouched)))), untouched: untouched} //nolint:gosec // repeatable
			if v := verifyOf(t, archiveOf(t, id, untouched, bodies), "--key", key, "--head", head); len(v.Violations) > 0 {
				t.Errorf("untouched: got %+v", v.Violations)
			}
			for n := 0; n < each; {
				name := list[a.IntN(len(list))]
				ch, ok := kinds[name](a, a.IntN(len(untouched)))
				if !ok {
					continue
				}
				n++
				args := []string{"--key", key}
				if ch.cut {
					args = append(args, "--head", head)
				}
				if n%10 == 0 && !ch.redacts {
					ch.check(t, live.verify(t, id, ch.list, args))
				} else {
					ch.check(t, verifyOf(t, append([]string{archiveOf(t, id, ch.list, bodies)}, args...)...))
				}
			}
		})
	}
}

func commitsIn(t *testing.T, path string) (list []stored, bodies map[string][]byte) {
	t.Helper()
	a, err := openArchive(path, 1024, nil)
	runtest.NoError(t, err)
	for e, err := range a.log.Read(t.Context(), a.session, 1) {
		runtest.NoError(t, err)
		list = append(list, stored{e.Data, e.Commit.ID})
	}
	return list, a.file.Blobs
}
