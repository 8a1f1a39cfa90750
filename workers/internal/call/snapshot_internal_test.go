package call

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/memory"
)

// kib100 is a reference to a body of 100 KiB.
var kib100 = events.BlobRef{Digest: "d", Size: 100 << 10}

// zeros are the bodies of a session; broken, where it is not nil, is their error.
type zeros struct {
	blob.Store
	broken error
}

func (z *zeros) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	return make([]byte, ref.Size), z.broken
}

// spilled is a snapshot whose conversation and input have a body each.
func spilled(p *memory.Pool, z *zeros) *Snapshot {
	parts := []events.Part{{Kind: events.PartText, Blob: kib100}}
	return &Snapshot{
		env: &Env{Blobs: z}, memory: p.Account("s", 0), input: events.TurnInput{Parts: parts},
		view: projector.ReadView{Spilled: true, Nodes: []*projector.Node{{ID: "n1", Kind: events.NodeMessage, Message: events.Message{ID: "m1", Parts: parts}}}},
	}
}

// TestEffectsShareBodies has an effect wait for two turns at once, and end, beside one that needs the bodies: they stay until it leaves them, too.
func TestEffectsShareBodies(t *testing.T) {
	t.Parallel()
	s := spilled(memory.NewPool(1<<20, 1<<20), &zeros{})
	ctx, waits, end := s.Hold(t.Context())
	_, needs, ends := s.Hold(t.Context())
	want := func(what string, kept bool) {
		t.Helper()
		if s.memory.Holds() != kept || (s.filled != nil) != kept {
			t.Errorf("%s: kept %t, with memory %t, want %t", what, s.filled != nil, s.memory.Holds(), kept)
		}
	}
	load := func() {
		t.Helper()
		_, err := s.bodies(ctx)
		runtest.NoError(t, err)
	}
	load()
	first, second := waits(), waits()
	want("beside one that needs them", true)
	first()
	back := needs()
	want("both wait", false)
	back()
	load()
	ends()
	want("it waits for the second turn", false)
	second()
	load()
	want("it is back", true)
	late := waits()
	end()
	late()
	want("all have ended", false)
}

// TestBodiesReserve: what is reserved has room for the input beside two copies of the conversation. After an error none of it is left. Who waits
// for it keeps no effect waiting that begins or leaves.
func TestBodiesReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, z := memory.NewPool(300<<10, 300<<10), &zeros{broken: errors.New("no servers")}
		s := spilled(p, z)
		ctx, _, release := s.Hold(t.Context())
		if _, err := s.bodies(ctx); !errors.Is(err, z.broken) || s.memory.Holds() {
			t.Errorf("got %v, and memory is left: %t", err, s.memory.Holds())
		}
		z.broken = nil
		give, err := p.Take(t.Context(), "other", 300<<10)
		runtest.NoError(t, err)
		got := make(chan error, 1)
		go func() { // ends when it has the memory
			_, err := s.bodies(ctx)
			got <- err
		}()
		synctest.Wait()
		_, _, other := s.Hold(t.Context())
		other()
		give()
		runtest.WantError(t, "got", <-got, nil)
		if err := memory.Take(memory.Now(p.Account("other", 0).In(t.Context())), kib100.Size); !errors.Is(err, api.ErrMemory) {
			t.Errorf("beside what is reserved: got %v", err)
		}
		runtest.WantError(t, "the prompt", memory.Take(memory.Now(ctx), kib100.Size), nil)
		release()
	})
}
