package plugin

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Streams of a tool's output. Other tokens are allowed.
const (
	StreamStdout   = "stdout"
	StreamStderr   = "stderr"
	StreamLog      = "log"
	StreamProgress = "progress"
)

// OutputFunc shows text that a running tool prints. It must not block. The offset is that of the text among the bytes
// of the stream; negative: after the text before.
type OutputFunc func(stream string, offset int64, text string)

// Output shows text to the people that watch the session while the tool runs. Text may be lost on the way, and nothing
// of it is recorded: the result counts. It does not block. stream is one of the Stream constants, or another token. Calls may overlap.
func (c Call) Output(stream, text string) {
	c.OutputAt(stream, -1, text)
}

// OutputAt is [Call.Output] of a tool that passes on the output of another program: offset is the number of bytes that
// the program printed to the stream before. An offset beyond the end shows that text was lost; one before the end
// begins another attempt.
func (c Call) OutputAt(stream string, offset int64, text string) {
	if c.Run.Output != nil && text != "" {
		c.Run.Output(stream, offset, text)
	}
}

// AskFunc asks people during a call, see [Call.Ask].
type AskFunc func(ctx context.Context, id, question string, details json.RawMessage) (events.ToolApprovalGiven, error)

// Ask asks people a question while the call runs. They answer it as an approval, and no worker has the turn meanwhile.
// In a program of its own the tool waits for the answer. In a node Ask records the question and returns [ErrWaits], which
// the handler returns: the answer runs the handler again, and then Ask returns it. details are JSON that people see with
// the question. id is a token that is unique in the call; another question needs another id. Errors: a [*Failure] where the
// call cannot wait, as a call inside another one that must not run twice; the cause of ctx's end, which in a program of its own also withdraws the question: a node denies it; others end the call.
func (c Call) Ask(ctx context.Context, id, question string, details json.RawMessage) (events.ToolApprovalGiven, error) {
	if c.Run.Ask == nil {
		return events.ToolApprovalGiven{}, &Failure{Class: ClassUnavailable, Code: CodeUnavailable, Message: "questions are not possible in this call"}
	}
	return c.Run.Ask(ctx, id, question, details)
}

// RequestFunc performs a request of the HTTP API for a running tool.
type RequestFunc func(ctx context.Context, id, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error)

// Request performs a request of the HTTP API, as the plugin, in the call's session or a session below it. The operator
// lists the operations that a plugin may use; the status of others is 403. id is a token that is unique in the call. It
// is the idempotency key: a repeat, also in another attempt of the call, gets the result of the first request. Errors:
// a [*Failure] of [ClassUnavailable] where the tool runs in a node, which has [Call.Host]; the cause of ctx's end.
func (c Call) Request(ctx context.Context, id, method, path string, body json.RawMessage) (status int, answer json.RawMessage, err error) {
	if c.Run.Request == nil {
		return 0, nil, &Failure{Class: ClassUnavailable, Code: CodeUnavailable, Message: "requests of the API are for plugins that run as programs of their own"}
	}
	return c.Run.Request(ctx, id, method, path, body)
}

// StoreBody is [BodyHost.StoreBody] for the call's session, in a node and in a program of its own. A program's body has at most 20 MiB,
// and the operator has to list the operations storeBlob and getBlob for it.
func (c Call) StoreBody(ctx context.Context, body []byte) (events.BlobRef, error) {
	return c.bodyHost().StoreBody(ctx, body)
}

// ReadBody is [BodyHost.ReadBody] for the call's session, as StoreBody.
func (c Call) ReadBody(ctx context.Context, digest string) ([]byte, error) {
	return c.bodyHost().ReadBody(ctx, digest)
}

func (c Call) bodyHost() BodyHost {
	switch {
	case c.Run.Bodies != nil:
		return c.Run.Bodies
	case c.Host != nil:
		return c.Host
	}
	return Absent{}
}
