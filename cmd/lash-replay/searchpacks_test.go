package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// said is what the turns, and the commits outside of turns, of a session say.
type said []*saidUnit

type saidUnit struct{ texts, tools []string }

// scanned reads a history without any index.
func scanned(t *testing.T, log events.Log, id events.SessionID) (all said) {
	t.Helper()
	turns := make(map[events.TurnID]*saidUnit)
	for entry, err := range log.Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		for i := range entry.Commit.Events {
			ev := &entry.Commit.Events[i]
			u := turns[ev.Turn]
			if u == nil || ev.Turn == "" && i == 0 {
				u = &saidUnit{}
				turns[ev.Turn], all = u, append(all, u)
			}
			f := index.Of(ev)
			for _, text := range f.Texts {
				u.texts = append(u.texts, strings.ToLower(text))
			}
			u.tools = append(u.tools, f.Tools...)
		}
	}
	return all
}

func (s said) has(texts []string, tool string) bool {
	return slices.ContainsFunc(s, func(u *saidUnit) bool {
		for _, text := range texts {
			if !slices.ContainsFunc(u.texts, func(s string) bool { return strings.Contains(s, text) }) {
				return false
			}
		}
		return tool == "" || slices.Contains(u.tools, tool)
	})
}

// comparing is a test, or a check of rapid.
type comparing interface {
	Helper()
	Context() context.Context
	Errorf(string, ...any)
	Fatal(...any)
}

// TestLongSearchEqualsScan compares searches of hundreds of sessions with a scan of their histories: most rows are packed, others are newer than the
// packs, are damaged, or are missing, and some sessions are cold or erased.
func TestLongSearchEqualsScan(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	const packed, all = 540, 570
	add := func(from, to int) {
		var wait sync.WaitGroup
		for w := range 4 {
			wait.Go(func() {
				for i := from + w; i < to; i += 4 {
					id := events.SessionID(fmt.Sprintf("s%03d", i))
					err := oneCommit(t.Context(), s.b.Log(), id, 2, vocabulary(uint64(i), 8))
					switch {
					case err != nil:
					case i%20 == 0:
						_, err = follow.NewArchiver(s.b, follow.ArchiverConfig{}).Archive(t.Context(), id)
					case i != all-1: // one has no row
						err = follow.NewProjector(s.b, nil).Project(t.Context(), id)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wait.Wait()
	}
	add(0, packed)
	runtest.NoError(t, follow.NewArchiver(s.b, follow.ArchiverConfig{}).Retain(t.Context(), time.Now()))
	rows, _ := s.b.Index()
	if list, err := rows.Packs(t.Context()); err != nil || len(list.Packs) != 1 || list.Packs[0].Rows != packed {
		t.Fatalf("got packs %+v, %v, want one of %d rows", list, err, packed)
	}
	add(packed, all)
	for i := 1; i < 15; i++ { // they move, and say a word of others
		id := events.SessionID(fmt.Sprintf("s%03d", i))
		c := &events.Commit{ID: events.CommitID(id), Session: id, At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: []events.Event{
			events.Of("", &events.SessionClosed{Reason: "moved " + vocabulary(uint64(i+100), 1)()}),
		}}
		_, err := s.b.Log().Append(t.Context(), c, 1)
		runtest.NoError(t, err)
		s.project(id)
	}
	_, err := rows.Update(t.Context(), "s030", func(bus.Row) ([]byte, error) { return []byte("damaged"), nil })
	runtest.NoError(t, err)
	histories := make(map[string]said)
	for i := range all {
		id := events.SessionID(fmt.Sprintf("s%03d", i))
		histories[string(id)] = scanned(t, s.b.Log(), id)
	}
	r, err := bus.OpenReader(t.Context(), bus.Config{URL: s.url})
	runtest.NoError(t, err)
	defer r.Close()
	found := 0
	compare := func(t comparing, texts []string, tool string) {
		t.Helper()
		want := []string{}
		for id, history := range histories {
			if history.has(texts, tool) {
				want = append(want, id)
			}
		}
		out, err := search(t.Context(), &busSource{Bus: r}, index.Query{Texts: texts, Tool: tool}, 1000, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for i := range out.Sessions {
			got = append(got, string(out.Sessions[i].ID))
		}
		slices.Sort(got)
		slices.Sort(want)
		if found += len(got); !slices.Equal(got, want) || out.Searched != len(histories) {
			t.Errorf("%q, tool %q: got %q of %d, want %q of %d", texts, tool, got, out.Searched, want, len(histories))
		}
	}
	check := func() {
		rapid.Check(t, func(rt *rapid.T) {
			word := rapid.Custom(func(t *rapid.T) string {
				word := wordOf(rapid.Uint64Range(0, 300).Draw(t, "word"))
				from := rapid.IntRange(0, len(word)-1).Draw(t, "from")
				return word[from:rapid.IntRange(from+1, len(word)).Draw(t, "to")]
			})
			compare(rt, rapid.SliceOfN(word, 1, 2).Draw(rt, "texts"), rapid.SampledFrom([]string{"", "", "lookup", "look"}).Draw(rt, "tool"))
		})
	}
	check()
	for _, text := range []string{"moved", "nosuchword", "4711"} {
		compare(t, []string{text}, "")
	}
	if found == 0 {
		t.Error("no search found a session")
	}
	_, err = follow.Erase(t.Context(), s.b, "s007", nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked"}, nil)
	runtest.NoError(t, err)
	delete(histories, "s007")
	compare(t, []string{"moved"}, "") // without the pack
}
