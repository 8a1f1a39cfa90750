package projector

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

var update = flag.Bool("update", false, "write the golden files of the base format's version")

var (
	goldenRef   = events.BlobRef{Digest: strings.Repeat("0f", 32), Size: 4711}
	goldenNodes = []Node{
		{ID: "n1", At: 7, Seq: 3, Turn: "t1", Kind: events.NodeMessage, Key: "k", Message: events.Message{
			ID: "n1", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "hi"}},
		}},
		{ID: "n2", Parent: "n1", At: 8, Seq: 4, Frame: "f2", Kind: events.NodePlugin, Type: "note", Body: []byte("{}")},
		{ID: "n3", Parent: "n2", At: 9, Seq: 5, Kind: events.NodePlugin, Type: "note", Blob: goldenRef},
	}
	goldenFrames = []Frame{
		{ID: "s1:frame:initial", Reason: "initial", Opened: 1, Options: []byte("1"), State: []byte("x")},
		{ID: "f2", Reason: "compaction", Keep: "n2", Seeds: 1, Opened: 2, Blob: goldenRef},
	}
)

func refs(n int) []events.BlobRef {
	list := make([]events.BlobRef, n)
	for i := range list {
		list[i] = events.BlobRef{Digest: fmt.Sprintf("%064x", i), Size: 1}
	}
	return list
}

// bodies of the base format: a golden value, its decoder, and its section in FORMAT.md.
var bodies = map[string]struct {
	value   any
	fresh   func() interface{ check() error }
	section string
}{
	"base": {&Base{
		Version: 1, Leaf: "n3", Branched: true, Nodes: 2*PageSegments + 5, Frames: goldenFrames, Pages: refs(2), Segments: refs(2), Tail: goldenNodes,
	}, func() interface{ check() error } { return &Base{} }, "Base"},
	"page":    {&pageData{1, refs(PageSegments)}, func() interface{ check() error } { return &pageData{} }, "Page"},
	"segment": {&segmentData{1, goldenNodes}, func() interface{ check() error } { return &segmentData{} }, "Segment"},
}

// TestBaseGolden compares the base format with its golden files, which stay forever.
func TestBaseGolden(t *testing.T) {
	t.Parallel()
	for name, p := range bodies {
		data, err := events.EncodePayload(p.value)
		runtest.NoError(t, err)
		path := filepath.Join("testdata", "golden", fmt.Sprintf("%s.v%d.hex", name, baseVersion))
		if *update {
			runtest.NoError(t, os.WriteFile(path, []byte(hex.Dump(data)), 0o600))
		}
		want, err := os.ReadFile(path)
		if err != nil || hex.Dump(data) != string(want) {
			t.Errorf("%s: got\n%swant\n%s, %v", name, hex.Dump(data), want, err)
		}
		got := p.fresh()
		if err := decodeBody(data, got); err != nil || !reflect.DeepEqual(got, p.value) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, p.value)
		}
	}
}

// TestBaseFormat compares the sections of FORMAT.md with the fields.
func TestBaseFormat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "events", "FORMAT.md"))
	runtest.NoError(t, err)
	types := map[string]any{"Frame": Frame{}, "Node": Node{}}
	for _, p := range bodies {
		types[p.section] = reflect.ValueOf(p.value).Elem().Interface()
	}
	for section, v := range types {
		_, body, ok := strings.Cut(string(text), "\n### "+section+"\n")
		if !ok {
			t.Fatalf("FORMAT.md has no section %s", section)
		}
		body, _, _ = strings.Cut(body, "\n##")
		s := reflect.TypeOf(v)
		if got := strings.Count(body, "\n| `"); got != s.NumField() {
			t.Errorf("section %s: got %d rows, want %d", section, got, s.NumField())
		}
		for i := range s.NumField() {
			tag, option, _ := strings.Cut(s.Field(i).Tag.Get("msgpack"), ",")
			row := "\n| `" + tag + "` | " + s.Field(i).Name + " | "
			_, line, ok := strings.Cut(body, row)
			line, _, _ = strings.Cut(line, "\n")
			if kind, _, _ := strings.Cut(line, " | "); !ok || strings.HasSuffix(kind, ", optional") != (option == "omitempty") {
				t.Errorf("section %s: no row %q, or it is not optional as the field is", section, strings.TrimSpace(row))
			}
		}
	}
}

// TestBaseVersions refuses other versions.
func TestBaseVersions(t *testing.T) {
	t.Parallel()
	for name, p := range bodies {
		data, err := events.EncodePayload(p.value)
		runtest.NoError(t, err)
		at := bytes.Index(data, []byte("\xa1v\x01")) + 2
		for _, version := range []byte{baseVersion - 1, baseVersion + 1} {
			other := bytes.Clone(data)
			other[at] = version
			runtest.WantError(t, fmt.Sprintf("%s of version %d", name, version), decodeBody(other, p.fresh()), events.ErrFutureVersion)
		}
	}
}

// TestBaseRefused: malicious bases are refused, with the field.
func TestBaseRefused(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*Base){
		"base.frames":          func(b *Base) { b.Frames = make([]Frame, maxBaseFrames+1) },
		"base.frames[0].seeds": func(b *Base) { b.Frames[0].Seeds = -22 },
		"base.frames[1].seeds": func(b *Base) { b.Frames = append(b.Frames[:1], Frame{ID: "f", Seeds: -1}) },
		"base.pages":           func(b *Base) { b.Pages = refs(maxBasePages + 1) },
		"base.pages.digest":    func(b *Base) { b.Pages[1].Digest = "../../etc" },
		"base.segments":        func(b *Base) { b.Segments = refs(PageSegments) },
		"base.segments.size":   func(b *Base) { b.Segments[0].Size = -1 },
		"base.tail":            func(b *Base) { b.Tail = make([]Node, 2*SegmentNodes) },
		"base.nodes":           func(b *Base) { b.Nodes = 1 << 40 },
		"node.id":              func(b *Base) { b.Tail[0].ID = "" },
		"node.kind":            func(b *Base) { b.Tail[1].Kind = "?" },
		"nodes[1].id":          func(b *Base) { b.Tail[1].ID = b.Tail[0].ID },
		"base.segments.digest": func(b *Base) { b.Segments[1].Digest = strings.Repeat("X", 64) },
	} {
		b := *bodies["base"].value.(*Base)
		b.Frames, b.Pages, b.Segments, b.Tail = append([]Frame(nil), b.Frames...), refs(2), refs(2), append([]Node(nil), b.Tail...)
		spoil(&b)
		data, err := events.EncodePayload(&b)
		runtest.NoError(t, err)
		var bad *events.FieldError
		if _, err := decodeBase(data); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("%s: got %v, want an error with that field", field, err)
		}
	}
	runtest.WantError(t, "short page", decodeBody(encode(t, &pageData{1, refs(3)}), &pageData{}), events.ErrInvalid)
	runtest.WantError(t, "empty segment", decodeBody(encode(t, &segmentData{Version: 1}), &segmentData{}), events.ErrInvalid)
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := events.EncodePayload(v)
	runtest.NoError(t, err)
	return data
}

// FuzzBase: decoding does not panic. An accepted base can be folded and has the same encoding again.
func FuzzBase(f *testing.F) {
	for _, p := range bodies {
		data, err := events.EncodePayload(p.value)
		runtest.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBase(data)
		if err != nil {
			return
		}
		again, err := decodeBase(encode(t, b))
		if err != nil || !bytes.Equal(encode(t, again), encode(t, b)) {
			t.Fatalf("encoded again: %v", err)
		}
		s := New("s")
		ref := RefOf(data)
		runtest.NoError(t, s.AttachBase(ref, data))
		err = s.Apply(events.Entry{Seq: 1, Commit: &events.Commit{Session: "s", Events: []events.Event{
			events.Of("", &events.SessionOpened{Forked: events.ForkedFrom{Session: "a", Seq: 1}, Base: ref}),
		}}})
		runtest.NoError(t, err)
		_, _ = s.View()
		_ = s.Check()
	})
}
