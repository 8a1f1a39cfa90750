// Package history keeps long conversations within the context window of the model. When the window fills, the prompts
// of a turn have placeholders for old attachments and large old tool results; near the limit they have only the
// newest turns, and say so. When a host compacts the session, its model summarises the older part, and the newest part stays.
//
// Guarantees: the graph keeps everything, because only views and frames change. The last two user turns stay whole,
// unless the window is nearly full. A call always has its result. The package imports session/plugin and below.
package history

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the plugin in histories.
const ID = "history"

// usageSource is the source of summaries in the usage ledger.
const usageSource = "compaction"

// priority of the transform and the compactor among those of other plugins.
const priority = 100

// Options of the plugin. A session may have its own. A session without a configured window is not changed.
type Options struct {
	PrunePercent int64 `json:"prune_percent,omitempty"` // filled part of the window, in percent, from which old results are replaced. Defaults to 60
	ResultBytes  int   `json:"result_bytes,omitempty"`  // bytes of an old tool result that stay. Defaults to 2048
	Reserve      int64 `json:"reserve,omitempty"`       // tokens of the window that stay free, at most a quarter of it. Defaults to 20 000
	Keep         int64 `json:"keep,omitempty"`          // newest tokens that a compaction does not summarise. Defaults to 20 000
}

// Factory builds the plugin.
func Factory(o Options) plugin.Factory {
	return plugin.WithOptions(ID, o, func(_ plugin.BuildContext, o Options) (plugin.Plugin, error) {
		return &history{Options{
			PrunePercent: or(o.PrunePercent, 60), ResultBytes: or(o.ResultBytes, 2<<10), Reserve: or(o.Reserve, 20_000), Keep: or(o.Keep, 20_000),
		}}, nil
	})
}

func or[T int | int64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

type history struct{ o Options }

func (h *history) Register(r *plugin.Registrar) error {
	r.TransformContext(priority, h.prune)
	r.Compact(priority, h.compact)
	return nil
}

// prune replaces old parts in the view of a turn.
func (h *history) prune(_ context.Context, in plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
	window := in.State.Config.ContextWindow
	capacity := h.capacity(&in.State.Config)
	if window == 0 || max(in.LastPrompt, projector.Tokens(now.Messages)) < min(window*h.o.PrunePercent/100, capacity) {
		return now, nil
	}
	now.Messages = h.pruned(now.Messages)
	if max(in.LastPrompt, projector.Tokens(now.Messages)) >= capacity {
		now.Messages = tail(now.Messages, capacity/2)
	}
	return now, nil
}

// capacity is the part of the window that prompts may fill. The rest is for the reply.
func (h *history) capacity(c *events.Config) int64 {
	window := c.ContextWindow
	return window - max(min(h.o.Reserve, window/4), min(c.MaxOutputTokens, window/4*3))
}

// compact summarises the older part of the conversation.
func (h *history) compact(ctx context.Context, in plugin.TransformContext) (plugin.Compaction, error) {
	view, err := in.State.View()
	if err != nil {
		return plugin.Compaction{}, err
	}
	cut, firstKept := h.cut(view)
	if cut == 0 {
		return plugin.Compaction{}, nil
	}
	text, err := summary(ctx, in.Host, h.pruned(view.Messages[:cut]), h.capacity(&in.State.Config))
	if err != nil {
		return plugin.Compaction{}, err
	}
	summary := summarySaid(text)
	return plugin.Compaction{Nodes: []api.AppendNode{{Message: &summary}}, Keep: firstKept}, nil
}

// cut finds the beginning of the part that stays: the number of messages before it, and its first node. Messages that
// stayed in an earlier compaction come after its summary and do not stay again.
func (h *history) cut(v projector.ReadView) (int, events.NodeID) {
	var nodes []*projector.Node // of the messages
	seen := make(map[events.MessageID]bool)
	for _, n := range v.Nodes {
		if n.Kind == events.NodeMessage && !seen[n.Message.ID] {
			seen[n.Message.ID] = true
			nodes = append(nodes, n)
		}
	}
	cut, firstKept, sum := len(nodes), events.NodeID(""), int64(0)
	for i := len(nodes) - 1; i >= 0; i-- {
		n := nodes[i]
		own := v.Frame.Keep == "" || n.Frame == v.Frame.ID
		if sum += projector.Tokens(v.Messages[i : i+1]); sum > h.o.Keep || !own {
			break
		}
		if projector.BeginsTurn(&n.Message) {
			cut, firstKept = i, n.ID
		}
	}
	return cut, firstKept
}
