package remote

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Program is a plugin whose code runs elsewhere, such as in a child process. As [Config.Plugin] it gets the messages of
// nodes as they are; its Build is not called, and Config.Version is not used. The instance registers, sends signs of
// life, answers repeats of calls, and keeps outcomes. Calls of the methods may overlap. Of a manifest with scope session it may also be a [SessionStarter] and an
// [Idler].
type Program interface {
	plugin.Factory

	// Manifest is what the instance registers.
	Manifest() *wire.Manifest
	// Call runs a call. It is called once for each id. ctx ends with a cancel of the call, whose cause is then a
	// [*Cancelled]. A nil outcome means that the call may have run, and that its outcome is not known.
	Call(ctx context.Context, call *wire.Call, on Caller) *wire.Outcome
	// Hook calls a hook. ctx ends with the hook's time.
	Hook(ctx context.Context, call *wire.HookCall) *wire.HookResult
	// Drain says that no new calls come: a node or the instance's owner wants it to end. It does not wait. It may be
	// called twice.
	Drain()
}

// Caller is the node that waits for a call.
type Caller interface {
	// Output shows text that the tool has printed. It does not block.
	Output(stream, text string)
	// Request performs a request of the HTTP API. id is the request's idempotency key within the call.
	Request(ctx context.Context, id, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error)
	// Ask asks people, and waits for their answer. id is as that of Request. Errors: a [*plugin.Failure] where the operator does
	// not let the plugin ask, or the call cannot wait; the cause of ctx's end, which withdraws the question: a node denies it in the
	// name [wire.CallerOf].
	Ask(ctx context.Context, id, question string, details json.RawMessage) (events.ToolApprovalGiven, error)
}

// Cancelled is the cause of a call's end by a cancel of a node.
type Cancelled struct{ wire.Cancel }

func (*Cancelled) Error() string { return "the call was cancelled" }
