package registry

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/plugin/wire"
)

func manifestOf(version string) *wire.Manifest { return &wire.Manifest{Version: version} }

// TestNextRow registers and rolls back versions in any order against a model: a version is current after it is
// accepted, one that was replaced is refused unless it rolls back, and other contents never get a version's name.
func TestNextRow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, current, replaced := new(row), "", make(map[string]bool)
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				version, rollback := fmt.Sprint(rapid.IntRange(1, 6).Draw(t, "version")), rapid.Bool().Draw(t, "rollback")
				other := rapid.Bool().Draw(t, "other contents")
				m := manifestOf(version)
				if other {
					m.Tools = []wire.Tool{{Name: "other"}}
				}
				next, err := r.next(m, rollback)
				known := version == current || replaced[version]
				if refused := known && other || replaced[version] && !rollback; (err != nil) != refused {
					t.Fatalf("version %s, current %s, replaced %v, rollback %v, other contents %v: got %v", version, current, replaced, rollback, other, err)
				}
				if e, ok := errors.AsType[*wire.Error](err); err != nil && (!ok || e.Code != wire.CodeConflict) {
					t.Fatalf("got %v, want a conflict", err)
				}
				if err != nil || other { // the model has one contents of each version
					return
				}
				if current != "" && current != version {
					replaced[current] = true
				}
				delete(replaced, version)
				r, current = next, version
			},
			"": func(t *rapid.T) {
				if r.Manifest.Version != current || len(r.Replaced) != len(replaced) {
					t.Fatalf("got %+v, want version %s with %v replaced", r, current, replaced)
				}
			},
		})
	})
}

// TestReplacedVersionsAreBounded replaces many versions: the row has the last ones.
func TestReplacedVersionsAreBounded(t *testing.T) {
	t.Parallel()
	r := new(row)
	for n := range 3 * maxReplaced {
		next, err := r.next(manifestOf(fmt.Sprint(n)), false)
		if err != nil {
			t.Fatal(err)
		}
		r = next
	}
	if last := manifestOf(fmt.Sprint(3*maxReplaced - 2)).Hash(); len(r.Replaced) != maxReplaced || r.Replaced[0].Hash != last {
		t.Errorf("replaced: got %d, the newest %s, want %d and version %d", len(r.Replaced), r.Replaced[0].Version, maxReplaced, 3*maxReplaced-2)
	}
}

// TestOlderManifestsAreBounded has manifests of the largest size replaced: a node keeps those of the last turns, within
// the limit of bytes, and at least one.
func TestOlderManifestsAreBounded(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{1: maxOlder, maxOlderBytes / 4: 4, 2 * maxOlderBytes: 1} {
		k := new(known)
		for n := range 3 * maxOlder {
			k.keepLocked(&Offer{Hash: fmt.Sprint(n), bytes: size})
		}
		if got := k.older[0].Hash; len(k.older) != want || got != fmt.Sprint(3*maxOlder-1) {
			t.Errorf("manifests of %d bytes: got %d, the first %s, want %d and the last one first", size, len(k.older), got, want)
		}
	}
}
