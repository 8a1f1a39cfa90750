package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/projector/index"
)

// packing are sessions whose index rows are packed a few at a time.
type packing struct {
	b     *bus.Bus
	ends  map[events.SessionID]int
	texts map[events.SessionID][]string
	of    string // the beginning of the sessions that are checked
}

func newPacking(b *bus.Bus) *packing {
	return &packing{b: b, ends: make(map[events.SessionID]int), texts: make(map[events.SessionID][]string)}
}

// say appends a text to a session.
func (p *packing) say(t *testing.T, id events.SessionID, text string) {
	t.Helper()
	if p.ends[id] == 0 {
		grow(t, p.b, id, 0, 1, 0)
		p.ends[id] = 1
	}
	c := commit(id, p.ends[id]+1, 0)
	c.Events = []events.Event{events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{
		ID: events.NodeID(c.ID), Kind: events.NodeMessage, Message: events.Message{
			ID: events.MessageID(c.ID), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: text}},
		},
	}}})}
	_, err := p.b.Log().Append(t.Context(), c, events.Seq(p.ends[id]))
	runtest.NoError(t, err)
	p.ends[id]++
	p.texts[id] = append(p.texts[id], text)
}

// pack makes packs of three rows.
func (p *packing) pack(t *testing.T) {
	t.Helper()
	runtest.NoError(t, follow.PackIndexOf(t.Context(), p.b, 2, 1, 3))
}

// list is the list of packs.
func (p *packing) list(t *testing.T) []bus.Pack {
	t.Helper()
	rows, _ := p.b.Index()
	list, err := rows.Packs(t.Context())
	runtest.NoError(t, err)
	return list.Packs
}

// checker is a test, or a check of rapid.
type checker interface {
	Helper()
	Context() context.Context
	Errorf(string, ...any)
	Fatal(...any)
}

// check compares the candidates of a text with the histories, and with the index rows themselves.
func (p *packing) check(t checker, text string) {
	t.Helper()
	plan := index.NewPlan(index.Query{Texts: []string{text}})
	got, err := follow.Candidates(t.Context(), p.b, plan)
	if err != nil {
		t.Fatal(err)
	}
	for id, texts := range p.texts {
		row, indexed := got[id]
		says := slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(index.Lower(s), index.Lower(text)) })
		if says && indexed && row == nil {
			t.Errorf("%q of %s, which says %q: the packs hide it", text, id, texts)
		}
	}
	rows, _ := p.b.Index()
	seen := 0
	for id := range p.ends {
		stored, err := rows.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		row, indexed := got[id]
		want, err := index.Decode(stored.Value)
		if err != nil {
			if indexed {
				t.Errorf("%s: got %+v for a row that cannot be used", id, row)
			}
			continue
		}
		seen++
		if may, _ := plan.May(want, nil); !indexed || may != (row != nil) || row != nil && (row.Session != id || row.At != want.At || row.Seq != want.Seq) {
			t.Errorf("%q of %s: got %t, %+v, want %t by the row", text, id, indexed, row, may)
		}
	}
	for id := range got {
		if strings.HasPrefix(string(id), p.of) {
			seen--
		}
	}
	if seen != 0 {
		t.Errorf("got %d sessions too few", seen)
	}
}

// TestLongCandidatesEqualRows draws what sessions say, and what happens to their rows and packs: at each time the packs find what the rows find, and hide
// nothing that a session with a row of its end says.
func TestLongCandidatesEqualRows(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	rows, _ := b.Index()
	run := 0
	most, damaged := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		p := newPacking(b)
		p.of = fmt.Sprintf("r%d-", run)
		ids := make([]events.SessionID, 8)
		for i := range ids {
			ids[i] = events.SessionID(fmt.Sprint(p.of, i))
		}
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abAB 中")), 1, 6, -1)
		id := rapid.SampledFrom(ids)
		acts := map[string]func(*rapid.T){
			"says": func(rt *rapid.T) {
				one := id.Draw(rt, "id")
				p.say(t, one, text.Draw(rt, "text"))
				mustProject(t, b, one)
			},
			"packed": func(*rapid.T) { p.pack(t); most = max(most, len(p.list(t))) },
			"damaged": func(rt *rapid.T) {
				one := id.Draw(rt, "id")
				_, err := rows.Update(t.Context(), one, func(have bus.Row) ([]byte, error) {
					if have.Revision == 0 {
						return nil, nil
					}
					damaged++
					return rapid.SampledFrom([][]byte{{}, []byte("damaged")}).Draw(rt, "row"), nil
				})
				runtest.NoError(rt, err)
			},
			"erased": func(rt *rapid.T) {
				one := id.Draw(rt, "id")
				if p.ends[one] == 0 {
					return
				}
				_, err := follow.Erase(t.Context(), b, one, nil, stone(one), nil)
				runtest.NoError(rt, err)
				delete(p.texts, one)
				p.ends[one] = 0
				ids[slices.Index(ids, one)] += "x" // an erased id is not used again
				id = rapid.SampledFrom(ids)
			},
			"pack lost": func(rt *rapid.T) {
				if list := p.list(t); len(list) > 0 {
					runtest.NoError(rt, rows.RemovePack(t.Context(), rapid.SampledFrom(list).Draw(rt, "pack").Name))
				}
			},
		}
		names := append(slices.Sorted(maps.Keys(acts)), "says", "says", "says", "packed")
		for range rapid.IntRange(1, 20).Draw(rt, "acts") {
			acts[rapid.SampledFrom(names).Draw(rt, "act")](rt)
		}
		for range 3 {
			p.check(rt, text.Draw(rt, "query"))
		}
	})
	if most < 3 || damaged == 0 {
		t.Errorf("got at most %d packs, %d damaged rows", most, damaged)
	}
}

// TestErasedFromPacks: after an erasure no pack has a word of the session, also where a packer has read its row before, or died
// before it listed its packs.
func TestErasedFromPacks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	p := newPacking(b)
	for i := range 7 {
		id := events.SessionID(fmt.Sprint("s", i))
		p.say(t, id, fmt.Sprintf("word%d", i))
		mustProject(t, b, id)
	}
	p.pack(t)
	p.say(t, "s1", "later") // its words are in two packs then
	p.say(t, "s7", "word7")
	mustProject(t, b, "s1")
	mustProject(t, b, "s7")
	p.pack(t)
	rows, _ := b.Index()
	before, err := rows.Packs(t.Context())
	runtest.NoError(t, err)
	if n, of := len(before.Packs), packedWith(t, b, "s1"); n < 3 || of != 2 || storedWith(t, b, "later") == 0 {
		t.Fatalf("got %d packs, %d with the session, want two with its words", n, of)
	}
	for range 20 { // the packs are tested in any order
		p.check(t, "later")
	}
	orphan, err := rows.PutPack(t.Context(), []byte("word1 of a packer that died"))
	runtest.NoError(t, err)
	_, err = follow.Erase(t.Context(), b, "s1", nil, stone("s1"), nil)
	runtest.NoError(t, err)
	delete(p.texts, "s1")
	if value, err := rows.Pack(t.Context(), orphan.Name); err != nil || value != nil {
		t.Errorf("the pack that is not listed: got %q, %v", value, err)
	}
	if n := packedWith(t, b, "s1"); n > 0 {
		t.Errorf("got %d packs with the erased session", n)
	}
	for _, word := range []string{"word1", "later"} {
		if n := storedWith(t, b, word); n > 0 {
			t.Errorf("%d values of the index have %q", n, word)
		}
	}
	runtest.WantError(t, "a packer that read the row before", rows.PutPacks(t.Context(), before), bus.ErrStale)
	for _, text := range []string{"word", "word1", "word2", "later"} {
		p.check(t, text)
	}
	p.pack(t)
	for _, text := range []string{"word", "word1", "word2", "later"} {
		p.check(t, text)
	}
}

// TestSweepErasedFromPacks: the sweep removes a pack with an erased session, as of a node that knew no packs, and no other one.
func TestSweepErasedFromPacks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	p := newPacking(b)
	for i := range 6 {
		id := events.SessionID(fmt.Sprint("s", i))
		p.say(t, id, "word")
		mustProject(t, b, id)
	}
	p.pack(t)
	rows, _ := b.Index()
	before, err := rows.Packs(t.Context())
	if err != nil || len(before.Packs) != 2 {
		t.Fatalf("got %+v, %v", before, err)
	}
	value, err := rows.Pack(t.Context(), before.Packs[0].Name)
	runtest.NoError(t, err)
	_, err = follow.Erase(t.Context(), b, "s1", nil, stone("s1"), nil)
	runtest.NoError(t, err)
	now, err := rows.Packs(t.Context())
	if err != nil || len(now.Packs) != 1 {
		t.Fatalf("after the erasure: got %+v, %v", now, err)
	}
	stays := now.Packs[0].Name
	again, err := rows.PutPack(t.Context(), value)
	runtest.NoError(t, err)
	old := before.Packs[0]
	old.Name, old.Revision = again.Name, again.Revision
	now.Packs = append([]bus.Pack{old}, now.Packs...)
	runtest.NoError(t, rows.PutPacks(t.Context(), now))
	_, err = follow.NewBlobSweeper(b).Sweep(t.Context(), time.Now())
	runtest.NoError(t, err)
	if list := p.list(t); len(list) != 1 || list[0].Name != stays {
		t.Errorf("got %+v, want %s alone", list, stays)
	}
}

// twoKeys are the keys of a store before and after a second one was added, which is the current one then.
func twoKeys(t *testing.T) (first, second *bodykey.Keys) {
	t.Helper()
	first, err := bodykey.New()
	runtest.NoError(t, err)
	second, id, err := first.Add()
	if err == nil {
		second, err = second.Use(id)
	}
	runtest.NoError(t, err)
	return first, second
}

// storedWith counts the stored values of the index that have a text, as they are on the server.
func storedWith(t *testing.T, b *bus.Bus, text string) (n int) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KV_lash-index")
	runtest.NoError(t, err)
	for seq := stream.CachedInfo().State.FirstSeq; seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		runtest.NoError(t, err)
		if bytes.Contains(msg.Data, []byte(text)) {
			n++
		}
	}
	return n
}

// TestPacksOfKeys: packs have rows of the key that they are encrypted with. A reader without that key reads what it can, and
// nothing of the words is stored plain.
func TestPacksOfKeys(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	first, second := twoKeys(t)
	old, now := newPacking(bustest.OpenWith(t, server, first)), newPacking(bustest.OpenWith(t, server, second))
	for i := range 12 {
		p, id := old, events.SessionID(fmt.Sprint("s", i))
		if i > 3 && i != 8 { // s8 is of a node that has the keys of before
			p = now
		}
		p.say(t, id, fmt.Sprintf("secret%d", i))
		mustProject(t, p.b, id)
		if i == 3 {
			p.pack(t)
		}
	}
	if n := len(old.list(t)); n != 2 {
		t.Fatalf("the first key: got %d packs, want 2", n)
	}
	now.pack(t)
	if n := len(now.list(t)); n < 4 {
		t.Fatalf("both keys: got %d packs, want 4", n)
	}
	maps.Copy(now.texts, old.texts)
	maps.Copy(now.ends, old.ends)
	for _, text := range []string{"secret", "secret1", "secret8", "secret11"} {
		now.check(t, text)
	}
	if n := storedWith(t, now.b, "secret"); n > 0 {
		t.Errorf("%d values of the index have a word in plain", n)
	}
	forgotten, err := second.Forget(first.Current())
	runtest.NoError(t, err)
	for name, c := range map[string]struct {
		keys *bodykey.Keys
		want int
	}{"first": {first, 5}, "second": {forgotten, 7}} {
		reader, err := bus.OpenReader(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Keys: c.keys})
		runtest.NoError(t, err)
		got, err := follow.Candidates(t.Context(), reader, index.NewPlan(index.Query{Texts: []string{"secret"}}))
		reader.Close()
		if err != nil || len(got) != c.want {
			t.Errorf("the %s key alone: got %d sessions, %v, want %d", name, len(got), err, c.want)
		}
	}
}
