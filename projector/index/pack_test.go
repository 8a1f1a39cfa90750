package index_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/index"
)

// drawnRow is the row of a session with texts, tools, outcomes, labels and times.
func drawnRow(t *rapid.T, id events.SessionID, long bool) *index.Row {
	b := index.NewBuilder(id, nil)
	seq := events.Seq(0)
	for _, text := range rapid.SliceOfN(texts(), 0, 5).Draw(t, "texts") {
		seq++
		b.Add(reply(seq, text))
	}
	for _, tool := range rapid.SliceOfN(rapid.SampledFrom([]string{"lookup", "cancel", "a"}), 0, 2).Draw(t, "tools") {
		seq++
		b.Add(entry(seq, events.Of("t1", &events.ModelReplied{Parts: []events.Part{{Kind: events.PartToolCall, Tool: tool, Args: []byte(`{}`)}}}),
			events.Of("t1", &events.TurnCompleted{End: rapid.SampledFrom([]events.TurnEnd{events.EndFinished, events.EndCancelled}).Draw(t, "end")})))
	}
	if long {
		var text strings.Builder
		for i := range 40_000 {
			fmt.Fprintf(&text, "%x ", i*7919)
		}
		b.Add(reply(seq+1, text.String()))
	}
	data, err := b.Encode(index.Settings{
		Labels: rapid.MapOfN(rapid.SampledFrom([]string{"env", "team"}), rapid.SampledFrom([]string{"a", "b"}), 0, 2).Draw(t, "labels"), Model: "m" + string(id),
	})
	runtest.NoError(t, err)
	r, err := index.Decode(data)
	runtest.NoError(t, err)
	return r
}

func drawnQuery(t *rapid.T) (q index.Query) {
	q.Texts = rapid.SliceOfN(rapid.OneOf(texts(), rapid.StringOfN(rapid.RuneFrom([]rune("abc01 中")), 1, 3, -1)), 0, 2).Draw(t, "query")
	q.Tool = rapid.SampledFrom([]string{"", "", "lookup", "look"}).Draw(t, "tool")
	q.Actor = rapid.SampledFrom([]string{"", "", "ann", "client:ann", "eve"}).Draw(t, "actor")
	q.Outcome = rapid.SampledFrom([]string{"", "", "finished"}).Draw(t, "outcome")
	q.Since, q.Until = events.Millis(rapid.IntRange(0, 6000).Draw(t, "since")), events.Millis(rapid.IntRange(0, 6000).Draw(t, "until"))
	q.Labels = rapid.MapOfN(rapid.SampledFrom([]string{"env", "team"}), rapid.SampledFrom([]string{"", "a"}), 0, 1).Draw(t, "wanted")
	return q
}

// TestLongPackEqualsRows: a pack and its rows have the same sessions for each query, with the same labels and times.
func TestLongPackEqualsRows(t *testing.T) {
	t.Parallel()
	partial := 0
	rapid.Check(t, func(rt *rapid.T) {
		var list []*index.Row
		b := index.NewPackBuilder()
		for i := range rapid.IntRange(1, 40).Draw(rt, "rows") {
			id := events.SessionID(fmt.Sprint("s", i))
			if rapid.IntRange(0, 9).Draw(rt, "gone") == 0 {
				b.Gone(id, uint64(i+1))
				list = append(list, nil)
				continue
			}
			r := drawnRow(rt, id, i == 3 && partial < 20)
			if r.Partial {
				partial++
			}
			list = append(list, r)
			runtest.NoError(rt, b.Add(r, uint64(i+1)))
		}
		data, err := b.Encode()
		runtest.NoError(rt, err)
		if _, err := index.Decode(data); err == nil || !index.IsPack(data) {
			rt.Error("a pack decodes as a row")
		}
		pack, err := index.DecodePack(data)
		runtest.NoError(rt, err)
		for range 10 {
			q := drawnQuery(rt)
			plan := index.NewPlan(q)
			got, err := pack.Test(plan)
			if err != nil || len(got) != len(list) {
				rt.Fatalf("got %d rows, %v, want %d", len(got), err, len(list))
			}
			for i, r := range list {
				want := index.Tested{Session: events.SessionID(fmt.Sprint("s", i)), Revision: uint64(i + 1), Gone: r == nil}
				if r != nil {
					want.May, _ = plan.May(r, nil)
					p := pack.Row(i)
					if p.Session != r.Session || p.Seq != r.Seq || p.First != r.First || p.At != r.At || p.Model != r.Model || p.Partial != r.Partial || !maps.Equal(p.Labels, r.Labels) {
						rt.Errorf("got row %+v, want %+v", p, r)
					}
				}
				runtest.Equal(rt, fmt.Sprintf("%+v", q), got[i], want)
			}
		}
	})
	if partial == 0 {
		t.Error("no row was partial")
	}
}

// TestPackRefuses: packs of other versions, cut ones, and ones above the limits are malformed. Cut ones never give a wrong answer.
func TestPackRefuses(t *testing.T) {
	t.Parallel()
	b := index.NewPackBuilder()
	for i := range 20 {
		builder := index.NewBuilder(events.SessionID(fmt.Sprint("s", i)), nil)
		builder.Add(reply(1, fmt.Sprintf("alpha beta%d gamma%d", i, i%3)))
		runtest.NoError(t, b.Add(row(t, builder), uint64(i+1)))
	}
	data, err := b.Encode()
	runtest.NoError(t, err)
	for i := range data {
		if _, err := index.DecodePack(data[:i]); !errors.Is(err, events.ErrMalformed) {
			t.Fatalf("the first %d bytes: got %v, want a malformed pack", i, err)
		}
	}
	for name, damaged := range map[string][]byte{"row": []byte("\x80"), "version": slices.Concat([]byte("LASHPACK1"), []byte("\x81\xa1v\x02"))} {
		_, err = index.DecodePack(damaged)
		runtest.WantError(t, name, err, events.ErrMalformed)
	}
	for rows, want := range map[int]error{index.PackRows: nil, index.PackRows + 1: events.ErrMalformed} {
		gone := index.NewPackBuilder()
		for i := range rows {
			gone.Gone("s", uint64(i))
		}
		if data, err = gone.Encode(); err == nil {
			_, err = index.DecodePack(data)
		}
		runtest.WantError(t, fmt.Sprintf("%d rows", rows), err, want)
	}
	large, err := events.EncodePayload(&struct {
		Version int64  `msgpack:"v"`
		Words   []byte `msgpack:"w"`
	}{index.Version, bytes.Repeat([]byte{0}, 1<<20)})
	runtest.NoError(t, err)
	if _, err := index.DecodePack(append([]byte("LASHPACK1"), large...)); !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), "limit is 1048576") {
		t.Errorf("a large one: got %v, want its limit", err)
	}
	runtest.WantError(t, "damaged words", b.Add(&index.Row{Session: "s", Words: []byte{0xff}}, 1), events.ErrMalformed)
}

// FuzzPack: damaged packs do not panic.
func FuzzPack(f *testing.F) {
	b := index.NewPackBuilder()
	for i := range 3 {
		runtest.NoError(f, b.Add(&index.Row{Session: "s", Words: []byte("\x03abc\x21d")}, uint64(i)))
	}
	b.Gone("gone", 9)
	data, err := b.Encode()
	runtest.NoError(f, err)
	f.Add(data, "abc")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		pack, err := index.DecodePack(data)
		if err != nil {
			return
		}
		list, _ := pack.Test(index.NewPlan(index.Query{Texts: []string{text}, Tool: "a", Labels: map[string]string{"a": "b"}}))
		for i := range list {
			_ = pack.Row(i)
		}
	})
}
