package service

import (
	"encoding/json"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestEncoding has what operations take, and what they give.
func TestEncoding(t *testing.T) {
	t.Parallel()
	eventstest.TestEncoding(t,
		none{}, "", []byte(nil), int64(0), false, events.SessionID(""), events.TurnID(""), events.NodeID(""), events.TaskID(""),
		events.MonitorID(""), events.InputID(""), []events.InputID(nil), events.ToolApprovalGiven{}, events.MonitorSpec{},
		api.CreateArgs{}, api.ConfigureArgs{}, api.TurnRequest{}, api.SubmitAtArgs{}, api.CancelArgs{}, api.InjectRequest{},
		api.AppendNodesRequest{}, api.FrameRequest{}, []api.RewriteArg(nil), api.ResolveArgs{}, api.ToolState{},
		api.AvailabilityArgs{}, api.ActionArgs{}, session.CompleteArgs{}, plugin.Completion{}, events.Message{}, api.ProtocolOptionsArgs{}, events.Extension{},
		[]json.RawMessage(nil), api.TaskRequest{}, api.ProgressArgs{}, api.EndTaskArgs{}, api.RequestCancelArgs{}, []events.TaskID(nil), api.TransferArgs{},
		api.SubmitAnswer{}, api.CancelAnswer{}, api.CancelFromAnswer{}, []api.InputReceipt(nil), api.AppendedNodes{},
		api.MonitorSnapshot{}, api.MonitorUpdates{}, projector.Task{}, events.BlobRef{}, []plugin.ActionDef(nil), plugin.Result{},
	)
}
