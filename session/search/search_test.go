package search_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
	"github.com/lash-go/lash/session/search"
)

// shelf is a source of sessions in memory, some of them with an index row. A read of a slow session takes an hour.
type shelf struct {
	*events.MemLog
	t     *testing.T
	rows  [][]byte
	names map[events.SessionID]events.Millis
	slow  map[events.SessionID]bool
}

func newShelf(t *testing.T) *shelf {
	return &shelf{MemLog: new(events.MemLog), t: t, names: make(map[events.SessionID]events.Millis), slow: make(map[events.SessionID]bool)}
}

// add makes a session in which a text was said once for each turn.
func (s *shelf) add(id events.SessionID, at events.Millis, indexed bool, turns ...string) {
	s.t.Helper()
	var list []events.Event
	for i, text := range turns {
		list = append(list, events.Of(events.TurnID(fmt.Sprint("t", i+1)), &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: text}}}}))
	}
	for i, commit := range [][]events.Event{{events.Of("", &events.SessionOpened{})}, list} {
		c := &events.Commit{ID: events.CommitID(fmt.Sprint(id, i)), Session: id, At: at, Actor: events.Actor{Kind: events.ActorClient, ID: "ann"}, Events: commit}
		_, err := s.Append(s.t.Context(), c, events.Seq(i))
		runtest.NoError(s.t, err)
	}
	if s.names[id] = at; indexed {
		b := index.NewBuilder(id, nil)
		for entry, err := range s.MemLog.Read(s.t.Context(), id, 1) {
			runtest.NoError(s.t, err)
			b.Add(entry)
		}
		row, err := b.Encode(index.Settings{})
		runtest.NoError(s.t, err)
		s.rows = append(s.rows, row)
	}
}

func (s *shelf) Log() events.Log { return s }

func (s *shelf) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	if !s.slow[id] {
		return s.MemLog.Read(ctx, id, from)
	}
	return func(yield func(events.Entry, error) bool) {
		select {
		case <-time.After(time.Hour): //nolint:forbidigo // in a bubble
		case <-ctx.Done():
		}
		yield(events.Entry{}, fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, ctx.Err()))
	}
}

func (s *shelf) Candidates(_ context.Context, plan *index.Plan) (map[events.SessionID]*index.Row, error) {
	rows := make(map[events.SessionID]*index.Row)
	for _, value := range s.rows {
		row, err := index.Decode(value)
		if err != nil {
			return nil, err
		}
		if rows[row.Session] = nil; first(plan.May(row, nil)) {
			rows[row.Session] = row
		}
	}
	return rows, nil
}

func first(ok bool, _ []byte) bool { return ok }

func (s *shelf) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return follow.ReadAt(ctx, s.MemLog, nil, id, math.MaxUint64)
}

// pages searches page by page. It returns the found and the failed sessions in order, and the number of pages.
func (s *shelf) pages(r search.Request) (found, failed []string, pages int) {
	s.t.Helper()
	r.Names = func(context.Context) (map[events.SessionID]events.Millis, error) { return s.names, nil }
	for pages = 1; pages < 100; pages++ {
		got, err := search.Run(s.t.Context(), s, r)
		runtest.NoError(s.t, err)
		for i := range got.Sessions {
			found = append(found, string(got.Sessions[i].Row.Session))
		}
		for _, f := range got.Failed {
			failed = append(failed, string(f.Session))
		}
		if !got.More {
			return found, failed, pages
		}
		if cursor, err := got.Last.Cursor(); err != nil {
			s.t.Fatal(err)
		} else if r.After, err = search.PositionOf(cursor); err != nil {
			s.t.Fatal(err)
		}
	}
	s.t.Fatalf("no end after %d pages", pages)
	return nil, nil, 0
}

// TestPages: whatever the limits are, the pages together have every session that matches once, newest first, and a page reads at
// most as many histories as it may. The text has no word, so that every row may match it.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	var want []string
	for i := range 40 {
		id, text := events.SessionID(fmt.Sprintf("s%02d", i)), "nothing"
		if i%3 == 0 {
			text = "what?!"
			want = append(want, string(id))
		}
		s.add(id, events.Millis(1000+i/4), i%5 != 0, text) // several of one time
	}
	slices.Reverse(want)
	for _, sessions := range []int{1, 2, 14, 100} {
		for _, read := range []int{0, 1, 7, 40} {
			found, failed, pages := s.pages(search.Request{Query: index.Query{Texts: []string{"?!"}}, Sessions: sessions, Matches: 1, Read: read})
			if !slices.Equal(found, want) || len(failed) > 0 {
				t.Errorf("%d sessions, %d reads: got %v, %v failed, want %v", sessions, read, found, failed, want)
			}
			if least := 40 / max(read, 1); read > 0 && pages < least {
				t.Errorf("%d sessions, %d reads: got %d pages, want %d or more", sessions, read, pages, least)
			}
		}
	}
}

// TestTime has sessions whose histories cannot be read in time, at the begin, in a row and at the end. The pages name them, find all
// others, and end.
func TestTime(t *testing.T) {
	t.Parallel()
	for _, slow := range []string{"", "s9", "s0", "s5 s4 s3", "s9 s0", "s0 s1 s2 s3 s4 s5 s6 s7 s8 s9"} {
		synctest.Test(t, func(t *testing.T) {
			s := newShelf(t)
			var wantFound, wantFailed []string
			for i := range 10 {
				id := events.SessionID(fmt.Sprintf("s%d", i))
				s.add(id, events.Millis(1000+i), true, "needle")
				if s.slow[id] = strings.Contains(slow, string(id)); s.slow[id] {
					wantFailed = append(wantFailed, string(id))
				} else {
					wantFound = append(wantFound, string(id))
				}
			}
			slices.Reverse(wantFound)
			slices.Reverse(wantFailed)
			began := time.Now()
			found, failed, pages := s.pages(search.Request{Query: index.Query{Texts: []string{"needle"}}, Sessions: 100, Matches: 1, Time: time.Second})
			if !slices.Equal(found, wantFound) || !slices.Equal(failed, wantFailed) {
				t.Errorf("%q: got %v, %v failed, want %v, %v", slow, found, failed, wantFound, wantFailed)
			}
			if took := time.Since(began); took > time.Duration(pages)*time.Second {
				t.Errorf("%q: got %s for %d pages, want a second each", slow, took, pages)
			}
		})
	}
}

// TestCancelledSearch: the end of the caller's context ends a search with its error, and is no failure of a session.
func TestCancelledSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newShelf(t)
		s.add("a", 1, true, "needle")
		s.slow["a"] = true
		for _, bound := range []time.Duration{0, time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			_, err := search.Run(ctx, s, search.Request{Query: index.Query{Texts: []string{"needle"}}, Sessions: 1, Matches: 1, Time: bound, Names: func(context.Context) (map[events.SessionID]events.Millis, error) { return s.names, nil }})
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("bound %s: got %v after %s, want the deadline after a second", bound, err, time.Since(began))
			}
		}
	})
}

// TestSnippets: the text of a match is short, on one line, valid, and around the first place of the first text.
func TestSnippets(t *testing.T) {
	t.Parallel()
	s := newShelf(t)
	long := strings.Repeat("\u00e4", 500)
	texts := map[string]string{
		"short": "a needle", "long": long + "needle" + long, "lines": "one\n\ttwo\r\n needle \u2028 end", "signs": "<script>needle</script>\x00\x1b[31m\u202e", "other_length": "\u0130\u0130 Needle",
	}
	for id, text := range texts {
		s.add(events.SessionID(id), 1, true, text, "more of the needle")
	}
	got, err := search.Run(t.Context(), s, search.Request{Query: index.Query{Texts: []string{"NEEDLE"}}, Sessions: 100, Matches: 2, Names: func(context.Context) (map[events.SessionID]events.Millis, error) { return s.names, nil }})
	if err != nil || len(got.Sessions) != len(texts) {
		t.Fatalf("got %+v, %v, want %d sessions", got, err, len(texts))
	}
	around := strings.Repeat("\u00e4", 30)
	for _, f := range got.Sessions {
		want := map[events.SessionID]string{
			"short": "a needle", "long": "..." + around + "needle" + around + "...", "lines": "one two needle end", "signs": "<script>needle</script>\x00\x1b[31m\u202e", "other_length": "\u0069\u0069 needle",
		}[f.Row.Session]
		if m := f.Matches; len(m) != 2 || m[0].Text != want || m[0].Turn != "t1" || m[1].Turn != "t2" || m[1].Text != "more of the needle" {
			t.Errorf("%s: got %+v, want %q", f.Row.Session, m, want)
		}
	}
}
