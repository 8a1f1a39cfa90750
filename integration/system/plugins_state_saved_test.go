package system

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// saving is a mindful protocol that stores in its state what it receives.
type saving struct {
	mindful
	state plugin.State[[]string]
}

func (s *saving) Register(reg *plugin.Registrar) error {
	reg.Protocol(protocolOf{s})
	reg.Driver(s)
	return nil
}

func (s *saving) Revision() uint64 { return s.state.Revision() }

func (s *saving) Snapshot(w *plugin.SnapshotWriter) ([]byte, error) { return s.state.Snapshot(w) }

func (s *saving) Restore(meta plugin.Meta, r plugin.SnapshotReader) error {
	return s.state.Restore(meta, r)
}

// protocolOf is the part of a saving plugin that is the protocol.
type protocolOf struct{ *saving }

func (p protocolOf) Restore(ctx context.Context, s plugin.ProtocolSession, state *projector.State) error {
	return p.mindful.Restore(ctx, s, state)
}

func (p protocolOf) ApplyExtension(ctx context.Context, e events.Extension) error {
	p.state.Update(func(list *[]string) { *list = append(*list, e.Type) })
	return p.mindful.ApplyExtension(ctx, e)
}

// TestExtensionSaved applies extensions to a protocol that saves their result: another node has the result, and
// does not apply them again. A protocol that saves nothing has a limit of extensions.
func TestExtensionSaved(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	var last *saving
	factory := plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) {
		last = &saving{}
		return last, nil
	})
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), factory)
	b.Host = b.NewNode(bustest.Open(t, b.Server), factory).Host()
	id := b.Open(api.CreateRequest{})
	for range 65 {
		runtest.WantError(t, "extension", b.ApplyExtension(b.Ctx, id, events.Extension{Type: "x"}), nil)
	}
	at := b.LastSeq(id)
	err := b.ReplaceExtensions(b.Ctx, id, []events.Extension{{Type: "y"}})
	runtest.WantError(t, "replace what is in the saved state", err, events.ErrInvalid)
	runtest.Equal(t, "field", fieldOf(err), "extensions")
	runtest.Equal(t, "last sequence", b.LastSeq(id), at)
	runtest.WantError(t, "replace by none", b.ReplaceExtensions(b.Ctx, id, nil), nil)
	kill()
	b.StartNode(factory)
	catalogue(b, id)
	runtest.Equal(t, "kept", len(last.state.Load()), 65)
	runtest.Equal(t, "handed again", len(last.extended), 0)
	runtest.Equal(t, "recorded", len(harness.Find[*events.SessionExtended](b, id)), 65)
	runtest.Equal(t, "folded", len(b.StateOf(id).Extensions), 0)

	p := &mindful{}
	b = harness.StartIdle(t)
	b.StartNode(plugin.New(standard.ID, func(plugin.BuildContext) (plugin.Plugin, error) { return p, nil }))
	id = b.Open(api.CreateRequest{})
	for range 64 {
		runtest.WantError(t, "extension", b.ApplyExtension(b.Ctx, id, events.Extension{Type: "x"}), nil)
	}
	var limit *api.LimitError
	if err := b.ApplyExtension(b.Ctx, id, events.Extension{Type: "x"}); !errors.As(err, &limit) || limit.Limit != 64 {
		t.Errorf("one more: got %v, want a limit of %d", err, 64)
	}
	runtest.Equal(t, "handed", len(p.extended), 64)
	var field *events.FieldError
	large := events.Extension{Type: "x", Body: []byte(`"` + strings.Repeat("x", 64<<10) + `"`)}
	if err := b.ApplyExtension(b.Ctx, id, large); !errors.As(err, &field) || field.Field != "body" {
		t.Errorf("a large one: got %v, want a field error of body", err)
	}
	runtest.WantError(t, "overlay", b.SetOverlay(b.Ctx, id, plugin.Overlay{Contributions: []events.Contribution{{
		Slot: events.SlotIntro, Content: strings.Repeat("x", plugin.MaxOverlayBytes),
	}}}), events.ErrTooLarge)
}
