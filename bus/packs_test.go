package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestRowsBetween: the rows of a span of revisions, over several batches, without packs and with the marks of removed rows.
func TestRowsBetween(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, _ := b.Index()
	var packs []uint64
	put := func(i int) {
		t.Helper()
		_, err := rows.Put(t.Context(), events.SessionID(fmt.Sprintf("s%d", i)), fmt.Appendf(nil, "row %d", i), 0)
		runtest.NoError(t, err)
	}
	for i := 1; i <= 1200; i++ {
		if i%400 == 0 {
			p, err := rows.PutPack(t.Context(), make([]byte, 10_000))
			if err != nil || p.Revision != uint64(i) {
				t.Fatalf("pack: got %+v, %v, want revision %d", p, err, i)
			}
			packs = append(packs, p.Revision)
			continue
		}
		put(i)
	}
	for _, c := range []struct{ after, upTo uint64 }{{0, 2000}, {0, 399}, {0, 400}, {399, 400}, {399, 401}, {400, 1199}, {700, 700}, {1000, 1 << 62}} {
		for _, skipped := range [][]uint64{packs, nil} {
			next := c.after + 1
			for row, err := range rows.Between(t.Context(), c.after, c.upTo, skipped) {
				if slices.Contains(packs, next) {
					next++
				}
				if err != nil || row.Revision != next || row.Session != events.SessionID(fmt.Sprintf("s%d", next)) || string(row.Value) != fmt.Sprintf("row %d", next) || row.OtherKey {
					t.Fatalf("%+v: got %+v, %v, want revision %d", c, row, err, next)
				}
				next++
			}
			want := min(c.upTo, 1200)
			if slices.Contains(packs, want) && next == want {
				next++
			}
			if next != max(want, c.after)+1 {
				t.Errorf("%+v: got rows up to %d, want %d", c, next-1, want)
			}
		}
	}
	n := 0
	for id, err := range rows.Keys(t.Context()) {
		if err != nil || id[0] != 's' {
			t.Fatalf("keys: got %s, %v", id, err)
		}
		n++
	}
	runtest.Equal(t, "keys", n, 1197)
}

// TestPackList: a list that another process wrote meanwhile is stale, and the packs that it does not have are removed.
func TestPackList(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, _ := b.Index()
	read := func() *bus.PackList {
		t.Helper()
		list, err := rows.Packs(t.Context())
		runtest.NoError(t, err)
		return list
	}
	pack := func(text string) bus.Pack {
		t.Helper()
		p, err := rows.PutPack(t.Context(), []byte(text))
		runtest.NoError(t, err)
		return p
	}
	first, late := read(), read()
	if first.Stored() || len(first.Packs) > 0 {
		t.Errorf("no list: got %+v", first)
	}
	one, other := pack("one"), pack("other")
	first.Packs = []bus.Pack{one}
	runtest.NoError(t, rows.PutPacks(t.Context(), first))
	runtest.WantError(t, "late list", rows.PutPacks(t.Context(), late), bus.ErrStale)
	for p, want := range map[string]string{one.Name: "one", other.Name: "", "=pack-none": ""} {
		if got, err := rows.Pack(t.Context(), p); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", p, got, err, want)
		}
	}
	if list := read(); len(list.Packs) != 1 || list.Packs[0].Name != one.Name || !slices.Equal(list.PackRevisions(), []uint64{one.Revision}) {
		t.Errorf("got %+v, want %+v", list, one)
	}
	runtest.NoError(t, rows.RemoveAllPacks(t.Context()))
	if got, err := rows.Pack(t.Context(), one.Name); err != nil || got != nil || read().Stored() {
		t.Errorf("dropped: got %q, %v, list %+v", got, err, read())
	}
	runtest.WantError(t, "a list of before", rows.PutPacks(t.Context(), first), bus.ErrStale)
}

// TestPackListIsChecked stores lists that no packer writes. They are malformed.
func TestPackListIsChecked(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, _ := b.Index()
	for name, packs := range map[string][]bus.Pack{
		"rows":      {{UpTo: 9, Rows: 1 << 22}},
		"negative":  {{UpTo: 9, Rows: -1}},
		"backwards": {{After: 9, UpTo: 8, Rows: 1}},
		"overlap":   {{After: 1, UpTo: 9, Rows: 1}, {After: 8, UpTo: 12, Rows: 1}},
		"twice":     {{After: 1, UpTo: 9, Rows: 1}, {After: 1, UpTo: 9, Rows: 1}},
		"many":      make([]bus.Pack, bus.MaxPacks+1),
	} {
		list, err := rows.Packs(t.Context())
		if err != nil && !errors.Is(err, events.ErrMalformed) {
			t.Fatal(err)
		}
		list.Packs = packs
		runtest.NoError(t, rows.PutPacks(t.Context(), list))
		_, err = rows.Packs(t.Context())
		runtest.WantError(t, name, err, events.ErrMalformed)
	}
	runtest.WantError(t, "an erasure", b.RemovePacksOf(t.Context(), "s"), nil)
	if list, err := rows.Packs(t.Context()); err != nil || len(list.Packs) > 0 {
		t.Errorf("after it: got %+v, %v, want no packs", list, err)
	}
}

// TestPackFilter: a filter has every session that was added, and few others. An empty one may have every session.
func TestPackFilter(t *testing.T) {
	t.Parallel()
	const n = 1500
	ids := make([]events.SessionID, n)
	for i := range ids {
		ids[i] = events.SessionID(fmt.Sprintf("session-%05d", i))
	}
	f, wrong := bus.NewPackFilter(ids), 0
	for i := range 10 * n {
		id := events.SessionID(fmt.Sprintf("session-%05d", i))
		switch has := f.Has(id); {
		case i < n && !has:
			t.Fatalf("%s is missing", id)
		case i >= n && has:
			wrong++
		}
	}
	if wrong > 9*n/30 || !bus.PackFilter(nil).Has("s") {
		t.Errorf("got %d others of %d", wrong, 9*n)
	}
}
