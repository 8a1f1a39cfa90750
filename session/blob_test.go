package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestEveryReferenceIsFound builds a history with every event kind that can contain a blob reference, each with its
// own reference. All are found, in that session and in no other.
func TestEveryReferenceIsFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("other")
	refs := map[string]events.BlobRef{}
	body := func(name string) events.BlobRef {
		ref, err := b.Bus.PutBlob(t.Context(), []byte(name))
		runtest.NoError(t, err)
		refs[name] = ref
		return ref
	}
	parts := func(name string) []events.Part {
		return []events.Part{{Kind: events.PartText, Blob: body(name)}}
	}
	b.Append("",
		&events.BodyStored{Blob: body("stored")},
		&events.GraphAppended{Nodes: []events.NewNode{
			{ID: "n1", Kind: events.NodeMessage, Message: events.Message{ID: "n1", Role: events.RoleUser, Parts: parts("message")}},
			{ID: "n2", Kind: events.NodePlugin, Type: "x", Blob: body("node")},
		}},
		&events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: parts("input")},
		&events.InputCancelled{Inputs: []events.InputID{"i1"}},
		&events.PluginStateSaved{Plugin: "p", Version: "1", Revision: 1, Blob: body("old state"), Artifacts: []events.Artifact{{Name: "a", Blob: body("artifact")}}},
		&events.PluginStateSaved{Plugin: "p", Version: "1", Base: 1, Revision: 2, Blob: body("state")},
		&events.FrameStateSaved{Blob: body("execution state")},
	)
	var all []events.BlobRef
	var digests []string
	for name, ref := range refs {
		if got, err := b.Host.FindBlobs(t.Context(), sid, ref.Digest); err != nil || !slices.Equal(got, []events.BlobRef{ref}) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, ref)
		}
		all, digests = append(all, ref, ref), append(digests, ref.Digest, ref.Digest)
		_, err := b.Host.ReadBlob(t.Context(), "other", ref.Digest)
		runtest.WantError(t, fmt.Sprintf("%s in another session", name), err, api.ErrUnknownBlob)
		if got, err := b.Host.ReadBlob(t.Context(), sid, ref.Digest); err != nil || string(got) != name {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := b.Host.FindBlobs(t.Context(), sid, digests...); err != nil || !slices.Equal(got, all) {
		t.Errorf("all at once: got %+v, %v, want %+v", got, err, all)
	}
	if got, err := b.Host.FindBlobs(t.Context(), sid, append(digests, strings.Repeat("0f", 32))...); !errors.Is(err, api.ErrUnknownBlob) {
		t.Errorf("all, and one that there is not: got %+v, %v, want %v", got, err, api.ErrUnknownBlob)
	}
}

// TestBodyThatIsGone names a body that was never stored.
func TestBodyThatIsGone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	gone := strings.Repeat("0f", 32)
	b.Append("", &events.BodyStored{Blob: events.BlobRef{Digest: gone, Size: 1}})
	_, err := b.Host.ReadBlob(t.Context(), sid, gone)
	if !errors.Is(err, api.ErrUnknownBlob) || errors.Is(err, bus.ErrNotFound) {
		t.Errorf("got %v, want %v", err, api.ErrUnknownBlob)
	}
}

// TestStoreIsOnce stores under one key twice, and then something else.
func TestStoreIsOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.owned("hers")
	ctx := api.WithRequestMeta(t.Context(), api.RequestMeta{Actor: "alice", Key: "k1"})
	var last events.Seq
	for n := range 2 {
		_, err := b.Host.StoreBlob(ctx, "hers", []byte("one"))
		runtest.NoError(t, err)
		s, err := b.Host.State(t.Context(), "hers")
		if err != nil || n > 0 && s.Seq != last {
			t.Errorf("again: got sequence %d, %v, want %d", s.Seq, err, last)
		}
		last = s.Seq
	}
	_, err := b.Host.StoreBlob(ctx, "hers", []byte("two"))
	runtest.WantError(t, "another body", err, api.ErrDifferent)
	for name, want := range map[string]error{"alice": nil, "bob": events.ErrNoSession} {
		_, err := b.Host.StoreBlob(as(t.Context(), name, api.RightWrite, "hers"), "hers", []byte(fmt.Sprint("of ", name)))
		runtest.WantError(t, name, err, want)
	}
}
