package registry

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/plugin/wire"
)

func manifestOf(version string) *wire.Manifest { return &wire.Manifest{Version: version} }

// rowOf is the row after versions were registered one after the other.
func rowOf(t interface{ Fatal(...any) }, versions ...string) *row {
	r := new(row)
	for _, v := range versions {
		next, err := r.next(manifestOf(v), false)
		if err != nil {
			t.Fatal(err)
		}
		r = next
	}
	return r
}

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

// TestMerge merges what a node knows with a table that was made again. The later version wins, as far as one side knows
// which that is, and every other version stays replaced.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mine, theirs []string // registered one after the other
		current      string
		replaced     []string
	}{
		"same":                       {[]string{"1", "2"}, []string{"2"}, "2", []string{"1"}},
		"old_instance_came_first":    {[]string{"1", "2"}, []string{"1"}, "2", []string{"1"}},
		"new_version_came_first":     {[]string{"1", "2"}, []string{"3"}, "3", []string{"1", "2"}},
		"other_node_knows_more":      {[]string{"1"}, []string{"1", "2"}, "2", []string{"1"}},
		"both_know_the_other_as_old": {[]string{"1", "2"}, []string{"2", "1"}, "1", []string{"2"}},
	} {
		got := merge(rowOf(t, c.mine...), rowOf(t, c.theirs...))
		if got.Manifest.Version != c.current || got.Hash != manifestOf(c.current).Hash() || len(got.Replaced) != len(c.replaced) {
			t.Errorf("%s: got version %s with %v replaced, want %s with %v", name, got.Manifest.Version, got.Replaced, c.current, c.replaced)
		}
		for _, version := range c.replaced {
			if !got.hasReplaced(manifestOf(version).Hash()) {
				t.Errorf("%s: version %s is not replaced", name, version)
			}
		}
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
