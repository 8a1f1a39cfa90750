package follow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
)

// packed makes sessions with a word each, and packs of their rows.
func packed(t *testing.T, b *bus.Bus, n int) *packing {
	t.Helper()
	p := newPacking(b)
	for i := range n {
		id := events.SessionID(fmt.Sprint("s", i))
		p.say(t, id, fmt.Sprintf("word%d", i))
		mustProject(t, b, id)
	}
	p.pack(t)
	return p
}

// TestSweepUnlistedPacks: a packer that read a row before its session was erased, and died after it stored its pack, leaves the words of an
// erased session for no longer than until the next sweep, also where no row needs a pack. One that still runs does not list its pack then.
func TestSweepUnlistedPacks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	p := packed(t, b, 6)
	rows, _ := b.Index()
	before, err := rows.Packs(t.Context())
	runtest.NoError(t, err)
	words, err := rows.Pack(t.Context(), before.Packs[0].Name)
	runtest.NoError(t, err)
	_, err = follow.Erase(t.Context(), b, "s1", nil, stone("s1"), nil)
	runtest.NoError(t, err)
	delete(p.texts, "s1")
	running, err := rows.Packs(t.Context())
	runtest.NoError(t, err)
	_, err = rows.PutPack(t.Context(), words)
	runtest.NoError(t, err)
	for range 2 {
		_, err = follow.NewBlobSweeper(b).Sweep(t.Context(), time.Now())
		runtest.NoError(t, err)
		if n := packedWith(t, b, "s1"); n > 0 {
			t.Errorf("after a sweep: got %d packs with the erased session", n)
		}
	}
	if err := rows.PutPacks(t.Context(), running); err == nil {
		t.Error("a packer that ran meanwhile: its list is stored")
	}
	now, err := rows.Packs(t.Context())
	if err != nil || now.Changes != running.Changes {
		t.Errorf("got list %+v, %v, want one write of the sweeps", now, err)
	}
	p.check(t, "word")
}

// TestMissingPacks: rows whose pack is listed and missing get another one.
func TestMissingPacks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	p := packed(t, b, 9)
	rows, _ := b.Index()
	for _, i := range []int{1, 0, 2} {
		list := p.list(t)
		if len(list) != 3 {
			t.Fatalf("got %d packs, want 3", len(list))
		}
		runtest.NoError(t, rows.RemovePack(t.Context(), list[i].Name))
		p.check(t, "word")
		p.pack(t)
		stored, err := rows.StoredPacks(t.Context())
		runtest.NoError(t, err)
		for _, pack := range p.list(t) {
			if !stored[pack.Name] {
				t.Errorf("without pack %d: %s is listed, and not stored", i, pack.Name)
			}
		}
		p.check(t, "word")
	}
}

// TestKeysInTurn: where nodes with two keys write in turn, the rows between make no packs of a few rows, which would fill the list.
func TestKeysInTurn(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	first, second := twoKeys(t)
	var sides [2]*packing
	for i, keys := range []*bodykey.Keys{first, second} {
		sides[i] = newPacking(bustest.OpenWith(t, server, keys))
	}
	for i := range 20 {
		p, id := sides[i%2], events.SessionID(fmt.Sprint("s", i))
		p.say(t, id, "word")
		mustProject(t, p.b, id)
	}
	p := sides[1]
	for i := range 8 {
		runtest.NoError(t, follow.PackIndexOf(t.Context(), p.b, 4, 4, 4))
		for _, pack := range p.list(t) {
			if pack.Rows < 4 {
				t.Errorf("got a pack of %d rows", pack.Rows)
			}
		}
		id := events.SessionID(fmt.Sprint("later", i))
		p.say(t, id, "word")
		mustProject(t, p.b, id)
	}
	if len(p.list(t)) == 0 {
		t.Error("got no pack of the rows of one key")
	}
}
