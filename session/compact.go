package session

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Compact calls the session's compactors for a summary and opens a frame with it. opened is false where no compactor
// returned one.
func (h *Host) Compact(ctx context.Context, id events.SessionID) (opened bool, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	// The repeat is found first: a summary costs a model call.
	compact := requestContent{operation.Compact.Name, openingFrame, &struct{}{}}
	meta, err := h.keyedMeta(ctx, compact, reqMeta)
	if err != nil {
		return false, err
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return false, err
	}
	if seq, err := meta.repeatOf(ctx, s); err != nil || seq != 0 {
		return err == nil, err
	}
	err = h.withStack(ctx, id, func(p *plugin.Stack, s *projector.State) error {
		if err := blob.FillState(ctx, h.b, s); err != nil {
			return err
		}
		got, err := p.Compact(ctx, plugin.TransformContext{
			Session: id, State: s, LastPrompt: s.Prompted, Host: h.Worker().RuntimeHost(id, nil, ""),
		})
		if err != nil || len(got.Value.Nodes) == 0 {
			return err
		}
		for i := range got.Value.Nodes {
			if m := got.Value.Nodes[i].Message; m != nil && m.Origin == "" {
				m.Origin = got.Plugin
			}
		}
		return h.decideByKey(ctx, id, compact, reqMeta, openFrame(&api.FrameRequest{
			Frame:  events.FrameID(string(id) + ":frame:compaction:" + ulid.Make().String()),
			Reason: api.CompactionFrame, Nodes: got.Value.Nodes, Keep: got.Value.Keep,
		}, &opened))
	})
	return opened && err == nil, err
}
