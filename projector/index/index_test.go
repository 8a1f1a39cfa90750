package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/index"
)

// reply is a commit with a reply of one text.
func reply(seq events.Seq, text string) events.Entry {
	return entry(seq, events.Of("t1", &events.ModelReplied{Parts: []events.Part{{Kind: events.PartText, Text: text}}}))
}

func entry(seq events.Seq, list ...events.Event) events.Entry {
	return events.Entry{Seq: seq, Commit: &events.Commit{
		ID: events.CommitID(fmt.Sprint("c", seq)), Session: "s", At: events.Millis(1000 * seq), Actor: events.Actor{Kind: events.ActorClient, ID: "ann"}, Events: list,
	}}
}

func row(t interface{ Fatal(...any) }, b *index.Builder) *index.Row {
	data, err := b.Encode(index.Settings{Labels: map[string]string{"env": "test"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := index.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func may(r *index.Row, q index.Query) bool {
	ok, _ := index.NewPlan(q).May(r, nil)
	return ok
}

// texts have letters of several scripts, blanks and punctuation.
func texts() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abcABC019 _-./\"\n\téÉßİ中文のไ\u0301\ufffd🙂")), 1, 40, -1)
}

// TestNoFalseNegative: a row may match each part of each text of its session, in any case of letters.
func TestNoFalseNegative(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(texts(), 1, 6).Draw(rt, "texts")
		b := index.NewBuilder("s", nil)
		for i, text := range list {
			b.Add(reply(events.Seq(i+1), text))
		}
		text := []rune(rapid.SampledFrom(list).Draw(rt, "text"))
		from := rapid.IntRange(0, len(text)-1).Draw(rt, "from")
		part := string(text[from:rapid.IntRange(from+1, len(text)).Draw(rt, "to")])
		if rapid.Bool().Draw(rt, "lower") {
			part = index.Lower(part)
		}
		if !may(row(rt, b), index.Query{Texts: []string{part}}) {
			rt.Errorf("%q of %q: got no match", part, list)
		}
	})
}

// TestContinued: a row that is continued equals one that is made at once.
func TestContinued(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfN(texts(), 1, 8).Draw(rt, "texts")
		cut := rapid.IntRange(0, len(list)).Draw(rt, "cut")
		whole, first := index.NewBuilder("s", nil), index.NewBuilder("s", nil)
		for i, text := range list {
			whole.Add(reply(events.Seq(i+1), text))
		}
		for i, text := range list[:cut] {
			first.Add(reply(events.Seq(i+1), text))
		}
		next := index.NewBuilder("s", row(rt, first))
		for i, text := range list {
			next.Add(reply(events.Seq(i+1), text)) // those that the row has already change nothing
		}
		if a, b := fmt.Sprintf("%+v", row(rt, whole)), fmt.Sprintf("%+v", row(rt, next)); a != b {
			rt.Errorf("got %s, want %s", b, a)
		}
	})
}

// TestMay: whole words inside a text, parts at its ends; names of tools, actors and outcomes; times and labels.
func TestMay(t *testing.T) {
	t.Parallel()
	b := index.NewBuilder("s", nil)
	b.Add(reply(1, "The refund of order-4711 (Zürich) was GRANTED. 注文を取り消しました"))
	b.Add(entry(2, events.Of("t1", &events.ModelReplied{Parts: []events.Part{{Kind: events.PartToolCall, Tool: "cancel_order", Args: []byte(`{"id":"x_99"}`)}}}),
		events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{{Outcome: events.OutcomeFailure, Text: "too late"}}}),
		events.Of("t1", &events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true, By: "bob"}), events.Of("t1", &events.TurnCompleted{End: events.EndFinished})))
	r := row(t, b)
	for want, list := range map[bool][]index.Query{
		true: {
			{Texts: []string{"refund of order"}},
			{Texts: []string{"fund OF ord"}},
			{Texts: []string{"4711"}},
			{Texts: []string{"ZÜRICH"}},
			{Texts: []string{"取り消"}},
			{Texts: []string{"x_99"}},
			{Texts: []string{"late", "granted"}},
			{Texts: []string{"..."}},
			{Tool: "cancel_order"},
			{Actor: "ann"},
			{Actor: "client:ann"},
			{Actor: "bob"},
			{Outcome: "failure"},
			{Outcome: "finished"},
			{Outcome: index.Granted},
			{Since: 2000},
			{Until: 1000},
			{Labels: map[string]string{"env": "test"}},
			{Labels: map[string]string{"env": ""}},
			{},
		},
		false: {
			{Texts: []string{"fund of ord "}},
			{Texts: []string{" fund"}},
			{Texts: []string{"47110"}},
			{Texts: []string{"late", "early"}},
			{Texts: []string{"消取q"}},
			{Tool: "cancel"},
			{Actor: "an"},
			{Actor: "node:ann"},
			{Outcome: "cancelled"},
			{Since: 2001},
			{Until: 999},
			{Labels: map[string]string{"env": "live"}},
			{Labels: map[string]string{"team": ""}},
		},
	} {
		for _, q := range list {
			runtest.Equal(t, fmt.Sprintf("%+v", q), may(r, q), want)
		}
	}
	if r.Seq != 2 || r.First != 1000 || r.At != 2000 || !strings.HasPrefix(r.Last, "The refund of order-4711") {
		t.Errorf("got %+v", r)
	}
}

// TestBounded: a row has a limit, keeps the names, and may match every text.
func TestBounded(t *testing.T) {
	t.Parallel()
	b := index.NewBuilder("s", nil)
	for i := range 40 {
		var text strings.Builder
		for j := range 1000 {
			fmt.Fprintf(&text, "%x-%d ", j*7919+i*104729, i*1000+j)
		}
		b.Add(reply(events.Seq(i+1), text.String()))
	}
	b.Add(entry(41, events.Of("t1", &events.TurnCompleted{End: events.EndCancelled})))
	r := row(t, b)
	if len(r.Words) > index.MaxWordsBytes || len(r.Words) < index.MaxWordsBytes/2 || !r.Partial {
		t.Errorf("got %d bytes, partial %v, want up to %d, true", len(r.Words), r.Partial, index.MaxWordsBytes)
	}
	if !may(r, index.Query{Texts: []string{"zzz"}}) || !may(r, index.Query{Outcome: "cancelled"}) || may(r, index.Query{Outcome: "finished"}) {
		t.Error("a partial row may match every text, and has its names")
	}
	again := index.NewBuilder("s", r)
	again.Add(reply(42, "more words"))
	if next := row(t, again); len(next.Words) > index.MaxWordsBytes || next.Seq != 42 {
		t.Errorf("continued: got %d bytes at %d", len(next.Words), next.Seq)
	}
}

// TestEveryKind: the facts of an event of each kind are texts of its payload, and no fact is empty.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		rapid.Check(t, func(rt *rapid.T) {
			ev := events.Of("t1", eventstest.Payload(kind).Draw(rt, "payload"))
			f := index.Of(&ev)
			if slices.Contains(f.Texts, "") || slices.Contains(f.Outcomes, "") {
				rt.Errorf("%s: got an empty fact in %+v", kind, f)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]index.Row{
		"version": {Version: index.Version + 1, Session: "s"}, "size": {Version: index.Version, Session: "s", Words: make([]byte, index.MaxWordsBytes+1)},
	} {
		data, err := events.EncodePayload(&r)
		runtest.NoError(t, err)
		_, err = index.Decode(data)
		runtest.WantError(t, name, err, events.ErrMalformed)
	}
}

// FuzzWords: damaged words hide nothing, and use bounded memory.
func FuzzWords(f *testing.F) {
	f.Add([]byte("\x03abc\x21d"), "abc")
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, "x")
	f.Fuzz(func(t *testing.T, words []byte, text string) {
		if len(words) > index.MaxWordsBytes || !utf8.ValidString(text) {
			return
		}
		r := &index.Row{Version: index.Version, Session: "s", Words: words}
		_, buf := index.NewPlan(index.Query{Texts: []string{text}}).May(r, nil)
		if cap(buf) > 300*(len(words)+2) {
			t.Errorf("got %d bytes of memory for %d", cap(buf), len(words))
		}
	})
}

// TestDecodeShares: a row shares its words with the encoded row, and an append to them does not reach the encoded row.
func TestDecodeShares(t *testing.T) {
	t.Parallel()
	data, err := events.EncodePayload(&index.Row{Version: index.Version, Session: "s", Words: []byte("\x01a"), Last: "z"})
	runtest.NoError(t, err)
	r, err := index.Decode(data)
	runtest.NoError(t, err)
	before := slices.Clone(data)
	if _ = append(r.Words, "xyz"...); !slices.Equal(data, before) {
		t.Errorf("got %x, want %x", data, before)
	}
}
