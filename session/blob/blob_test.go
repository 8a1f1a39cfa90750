package blob_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/memory"
)

// memStore is a store of bodies by digest.
type memStore map[string][]byte

func (b memStore) put(body string) events.BlobRef {
	ref := projector.RefOf([]byte(body))
	b[ref.Digest] = []byte(body)
	return ref
}

func (b memStore) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := b[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

func (b memStore) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
	return b.put(string(body)), nil
}

// TestSpillCopies spills every body of every kind: the caller's payload keeps its own.
func TestSpillCopies(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				p := eventstest.Payload(kind).Draw(rt, "payload")
				before := encoded(rt, p)
				spilled, err := blob.SpillAbove(t.Context(), memStore{}, p, 0, 0)
				runtest.NoError(rt, err)
				if left := blob.Size(spilled); left > 0 {
					rt.Errorf("got %d bytes of bodies left, want none", left)
				}
				if after := encoded(rt, p); !bytes.Equal(after, before) {
					rt.Errorf("got %x after, want %x", after, before)
				}
			})
		})
	}
}

func encoded(t *rapid.T, p events.Payload) []byte {
	data, err := events.EncodePayload(p)
	runtest.NoError(t, err)
	return data
}

// Every reference of an event is found.
func TestBlobRefs(t *testing.T) {
	t.Parallel()
	ref := events.BlobRef{Digest: "d", Size: 1}
	part := []events.Part{{Kind: events.PartText, Blob: ref}}
	nodes := []events.NewNode{{Blob: ref, Message: events.Message{Parts: part}}}
	for _, tc := range []struct {
		p    events.Payload
		want int
	}{
		{&events.TurnRequested{Input: events.TurnInput{Parts: part}}, 1},
		{&events.InputInjected{Parts: part}, 1},
		{&events.ModelReplied{Parts: part}, 1},
		{&events.ToolReturned{Results: []events.ToolResult{{Blob: ref, Attachments: part}}}, 2},
		{&events.GraphAppended{Nodes: nodes}, 2},
		{&events.FrameOpened{Nodes: nodes}, 2},
		{&events.SessionClosed{}, 0},
		{nil, 0},
	} {
		if got := events.Refs(tc.p); len(got) != tc.want {
			t.Errorf("%T: got %v, want %d", tc.p, got, tc.want)
		}
	}
}

// TestBodiesTakeMemory: each exported function that reads bodies takes their memory first, and reads none without it.
func TestBodiesTakeMemory(t *testing.T) {
	t.Parallel()
	store := memStore{}
	ref := store.put(strings.Repeat("x", 100<<10))
	parts := func() []events.Part { return []events.Part{{Kind: events.PartText, Blob: ref}} }
	message := func() []events.Message { return []events.Message{{ID: "m1", Role: events.RoleUser, Parts: parts()}} }
	reads := map[string]func(context.Context, blob.Reader) error{
		"Body": func(ctx context.Context, r blob.Reader) error { return second(blob.Body(ctx, r, nil, ref)) },
		"Fill": func(ctx context.Context, r blob.Reader) error { return second(blob.Fill(ctx, r, message())) },
		"FillInput": func(ctx context.Context, r blob.Reader) error {
			return second(blob.FillInput(ctx, r, events.TurnInput{Parts: parts()}))
		},
		"FillNodes": func(ctx context.Context, r blob.Reader) error {
			return second(blob.FillNodes(ctx, r, []events.NewNode{{Blob: ref}}))
		},
		"FillParts": func(ctx context.Context, r blob.Reader) error { return second(blob.FillParts(ctx, r, parts())) },
		"FillPayload": func(ctx context.Context, r blob.Reader) error {
			return second(blob.FillPayload(ctx, r, &events.ModelReplied{Parts: parts()}))
		},
		"FillResult": func(ctx context.Context, r blob.Reader) error {
			return second(blob.FillResult(ctx, r, events.ToolResult{Blob: ref}))
		},
		"FillState": func(ctx context.Context, r blob.Reader) error {
			s := projector.New("s")
			s.CacheView(projector.ReadView{Spilled: true, Nodes: []*projector.Node{{ID: "n1", Kind: events.NodeMessage, Message: message()[0]}}})
			return blob.FillState(ctx, r, s)
		},
		"FillView": func(ctx context.Context, r blob.Reader) error {
			return second(blob.FillView(ctx, r, projector.ReadView{Spilled: true, Nodes: []*projector.Node{{ID: "n1", Blob: ref}}}))
		},
		"ReadOutput": func(ctx context.Context, r blob.Reader) error {
			return second(blob.ReadOutput(ctx, r, &events.ToolResult{Blob: ref}))
		},
	}
	for name, read := range reads {
		p := memory.NewPool(150<<10, 150<<10)
		a := p.Account("a", 0)
		if err := read(a.In(t.Context()), store); err != nil || !a.Holds() {
			t.Errorf("%s: got %v, and its body has memory: %t", name, err, a.Holds())
		}
		if err := read(memory.Now(a.In(t.Context())), memStore{}); !errors.Is(err, api.ErrMemory) { // a body that is read is missing
			t.Errorf("%s, without memory: got %v", name, err)
		}
	}
	if want := readersOf(t); !slices.Equal(slices.Sorted(maps.Keys(reads)), want) {
		t.Errorf("got %v, want the functions that read bodies: %v", slices.Sorted(maps.Keys(reads)), want)
	}
}

func second[T any](_ T, err error) error { return err }

// readersOf are the exported functions that take a reader of bodies, but for those that return another one, read contracts of tools, or visit bodies
// one after the other.
func readersOf(t *testing.T) (list []string) {
	files, err := filepath.Glob("*.go")
	runtest.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		runtest.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(ctx context\.Context, blobs Reader`).FindAllStringSubmatch(string(data), -1) {
			list = append(list, m[1])
		}
	}
	list = slices.DeleteFunc(list, func(name string) bool { return name == "Contracts" || name == "Visit" })
	slices.Sort(list)
	return list
}
