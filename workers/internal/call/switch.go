package call

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// What a frame switch may take of the event that carries it, in bytes. The
// bodies in the same event take up to three quarters of it.
const (
	maxSwitch     = 56 << 10
	switchInline  = 16 << 10
	switchInlined = 32 << 10
)

// codeSwitchTooLarge is the code of results whose frame switch has too much in it.
const codeSwitchTooLarge = "agent_frame_too_large"

// spillSwitch moves large bodies of a frame's first nodes to blobs: until the
// frame is opened they are in events that keep no bodies outside the log. A
// switch that is too large for those is a [*plugin.Failure].
func (e *Env) spillSwitch(ctx context.Context, s events.FrameSwitch) (events.FrameSwitch, error) {
	if err := checkBodies(&events.ToolResult{Switch: s}, events.MaxBlobBytes); err != nil {
		return s, &plugin.Failure{Class: plugin.ClassResourceLimit, Code: codeSwitchTooLarge, Message: err.Error()}
	}
	opened, err := blob.SpillAbove(ctx, e.Blobs, &events.FrameOpened{Nodes: s.Nodes}, switchInline, switchInlined)
	if err != nil {
		return s, err
	}
	s.Nodes = opened.(*events.FrameOpened).Nodes
	data, err := events.EncodePayload(&events.TurnCompleted{Switch: s})
	if err == nil && len(data) > maxSwitch {
		err = &plugin.Failure{Class: plugin.ClassResourceLimit, Code: codeSwitchTooLarge, Message: fmt.Sprintf(
			"the task and the nodes of a frame switch have %d bytes, limit is %d", len(data), maxSwitch)}
	}
	return s, err
}

// switchable is a result with its frame switch as events carry it, or the
// failure of the call where the switch is too large.
func (e *Env) switchable(ctx context.Context, out events.ToolResult) events.ToolResult {
	if out.Control != events.ControlSwitch {
		return out
	}
	to, err := e.spillSwitch(ctx, out.Switch)
	if err != nil {
		failure := asFailure(err)
		return replaced(out, Failed(0, failure.Class, failure.Code, failure))
	}
	out.Switch = to
	return out
}
