package projector_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// The stored forms of a snapshot's head, a page, a segment and a book.
type (
	storedHead struct {
		Fold     int64            `msgpack:"v"`
		Head     projector.Head   `msgpack:"h"`
		Pages    []events.BlobRef `msgpack:"p,omitempty"`
		Segments []events.BlobRef `msgpack:"s,omitempty"`
		Books    []events.BlobRef `msgpack:"k,omitempty"`
	}
	storedPage struct {
		Version  int64            `msgpack:"v"`
		Segments []events.BlobRef `msgpack:"s"`
	}
	storedSegment struct {
		Version int64            `msgpack:"v"`
		Nodes   []projector.Node `msgpack:"n"`
	}
	storedBook struct {
		Turns []projector.TurnRecord `msgpack:"r,omitempty"`
	}
)

func (st store) put(t *testing.T, v any) events.BlobRef {
	t.Helper()
	data, err := events.EncodePayload(v)
	runtest.NoError(t, err)
	st[projector.RefOf(data)] = data
	return projector.RefOf(data)
}

// fill attaches all missing bodies.
func (st store) fill(s *projector.State) error {
	for missing := s.Missing(); len(missing) > 0; missing = s.Missing() {
		for _, ref := range missing {
			if err := s.Attach(ref, st[ref]); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestBodyIsNamedOnce: a snapshot or a base that lists a body twice is refused, in every list of bodies. Otherwise
// a small body that lists another one a hundred thousand times would exhaust the reader's memory.
func TestBodyIsNamedOnce(t *testing.T) {
	t.Parallel()
	st := make(store)
	segments := make([]events.BlobRef, 2*projector.PageSegments)
	for i := range segments {
		id := fmt.Sprintf("n%d", i)
		segments[i] = st.put(t, &storedSegment{projector.BaseVersion, []projector.Node{{
			ID: events.NodeID(id), Kind: events.NodeMessage, Message: events.Message{ID: events.MessageID(id), Role: events.RoleUser},
		}}})
	}
	page := func(list ...events.BlobRef) events.BlobRef {
		return st.put(t, &storedPage{projector.BaseVersion, list})
	}
	first, second := page(segments[:projector.PageSegments]...), page(segments[projector.PageSegments:]...)
	inOne := page(append([]events.BlobRef{segments[1]}, segments[1:projector.PageSegments]...)...)
	inBoth := page(append([]events.BlobRef{segments[0]}, segments[projector.PageSegments+1:]...)...)
	book := st.put(t, &storedBook{[]projector.TurnRecord{{ID: "t1"}}})
	for name, tc := range map[string]struct {
		pages, segments, books []events.BlobRef
		malformed              bool
	}{
		"once":              {[]events.BlobRef{first}, segments[projector.PageSegments : projector.PageSegments+2], []events.BlobRef{book}, false},
		"pages":             {[]events.BlobRef{first, second, first}, nil, nil, true},
		"segments":          {nil, []events.BlobRef{segments[0], segments[1], segments[0]}, nil, true},
		"in_a_page":         {[]events.BlobRef{inOne}, nil, nil, true},
		"in_two_pages":      {[]events.BlobRef{first, inBoth}, nil, nil, true},
		"in_and_out_a_page": {[]events.BlobRef{first}, segments[:1], nil, true},
		"books":             {nil, nil, []events.BlobRef{book, book}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect := func(what string, err error) {
				t.Helper()
				if got := errors.Is(err, events.ErrMalformed); got != tc.malformed || err != nil && !got {
					t.Errorf("%s: got %v, want it malformed: %t", what, err, tc.malformed)
				}
			}
			head, err := events.EncodePayload(&storedHead{projector.FoldVersion, projector.Head{Session: "s"}, tc.pages, tc.segments, tc.books})
			runtest.NoError(t, err)
			s, err := projector.Restore(head)
			if err == nil {
				err = st.fill(s)
			}
			expect("snapshot", err)
			if tc.books != nil && tc.malformed {
				return // a base has none
			}
			base, err := events.EncodePayload(&projector.Base{
				Version: projector.BaseVersion, Nodes: int64(len(tc.pages)*projector.PageSegments + len(tc.segments)), Pages: tc.pages, Segments: tc.segments,
			})
			runtest.NoError(t, err)
			ref, copied := projector.RefOf(base), projector.New("copy")
			runtest.NoError(t, errors.Join(copied.AttachBase(ref, base), copied.Apply(firstOf("copy", s, ref))))
			expect("base", st.fill(copied))
			expect("walk", projector.WalkBase(ref, func(r events.BlobRef) ([]byte, error) {
				if r == ref {
					return base, nil
				}
				return st[r], nil
			}, func(projector.BaseBody) error { return nil }))
		})
	}
}
