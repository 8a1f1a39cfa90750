package call

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// afterCall runs the hooks after a call, then the projector of results, which
// shortens what the model reads.
func (d *dispatch) afterCall(ctx context.Context, args []byte, out events.ToolResult) events.ToolResult {
	call := d.pluginCall()
	in := plugin.ToolResultContext{
		Call: call, Tool: d.call.Tool, Args: args, Result: pluginResult(&out), Millis: out.Millis, Host: call.Host,
	}
	if in.Args == nil {
		in.Args = []byte("{}")
	}
	out = d.hooksAfter(ctx, in, out)
	if d.inner || ctx.Err() != nil {
		return out
	}
	in.Result = pluginResult(&out)
	view, projected := d.stack.ProjectToolResult(ctx, in)
	if !projected {
		return out
	}
	if view.Text != out.Text {
		out.Full, out.Text = out.Text, strings.ToValidUTF8(view.Text, "\uFFFD")
	}
	for i := range out.Attachments {
		seen := func(p events.Part) bool { return reflect.DeepEqual(p, out.Attachments[i]) }
		if !slices.ContainsFunc(view.Attachments, seen) {
			out.Unseen = append(out.Unseen, out.Attachments[i])
		}
	}
	out.Attachments = view.Attachments
	return bounded(out)
}

// hooksAfter runs the hooks after a call, which may replace its result.
func (d *dispatch) hooksAfter(ctx context.Context, in plugin.ToolResultContext, out events.ToolResult) events.ToolResult {
	list, err := d.stack.AfterToolCall(d.record.saving(ctx), in)
	if err != nil {
		return replaced(out, Failed(0, plugin.ClassExecution, plugin.CodeAfter, err))
	}
	c, err := d.at.applyDirectives(ctx, d.call.Effect, list)
	if err != nil {
		return replaced(out, Failed(0, plugin.ClassExecution, plugin.CodeCreate, err))
	}
	if r := c.replacement(plugin.ClassExecution); r != nil {
		out = replaced(out, *r)
	}
	if len(c.decisions) == 0 {
		return out
	}
	ran := &events.HookRan{Point: events.PointAfterTool, Decisions: c.decisions}
	for i := range ran.Decisions {
		ran.Decisions[i].Call = d.call.Index
	}
	for i := range ran.Decisions {
		if ran.Decisions[i].Kind == events.DirectiveEnqueue {
			ran.Decisions[i].Messages = c.messages // all of them, with the first
			break
		}
	}
	if err := tooLarge(ran); err != nil {
		return replaced(out, Failed(0, plugin.ClassResourceLimit, plugin.CodeAfter, err))
	}
	d.extra = append(d.extra, ran)
	return out
}

// replaced is another result of the same call.
func replaced(out, by events.ToolResult) events.ToolResult {
	by.Call, by.Attempts, by.Millis = out.Call, out.Attempts, out.Millis
	return by
}
