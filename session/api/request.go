package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// RequestFormat is the version of requests and answers. A node refuses other versions.
const RequestFormat = 1

// MaxRequestBytes limits an encoded request and an encoded answer, so that each fits in a 1 MiB message. Larger
// bodies go to blobs, and the request has their references.
const MaxRequestBytes = events.MaxCommitBytes

// Request is the wire form of a request to a node.
type Request struct {
	Format  int64            `msgpack:"f"`
	Actor   string           `msgpack:"a,omitempty"`
	Key     string           `msgpack:"k,omitempty"`
	Since   events.Seq       `msgpack:"q,omitempty"` // set by earlier clients; ignored
	Session events.SessionID `msgpack:"s,omitempty"`
	Body    []byte           `msgpack:"b,omitempty"` // the operation's request type, encoded
}

// Response is the wire form of an answer: it has an error or a body.
type Response struct {
	Error ErrorBody  `msgpack:"e,omitempty"`
	Body  []byte     `msgpack:"b,omitempty"` // the operation's answer type, encoded
	Seq   events.Seq `msgpack:"q,omitempty"` // of the request's commit; 0 where it made none
}

// EncodeRequest encodes a request. A request that is too large is an [*events.FieldError] that is
// [events.ErrTooLarge].
func EncodeRequest(r Request) ([]byte, error) {
	data, err := events.EncodePayload(&r)
	if err == nil && len(data) > MaxRequestBytes {
		err = &events.FieldError{
			Field: "request", Err: events.ErrTooLarge,
			Reason: fmt.Sprintf("has %d bytes, limit is %d; put large bodies into blobs, and refer to those", len(data), MaxRequestBytes),
		}
	}
	return data, err
}

// DecodeRequest decodes a request and checks its envelope. The error is of class invalid.
func DecodeRequest(data []byte) (Request, error) {
	var r Request
	if len(data) > MaxRequestBytes {
		return r, &events.FieldError{Field: "request", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(data), MaxRequestBytes), Err: events.ErrTooLarge}
	}
	if err := DecodeStrict(data, &r); err != nil {
		return r, err
	}
	if r.Format != RequestFormat {
		return r, &events.FieldError{Field: "format", Reason: fmt.Sprintf("is %d, this node speaks %d", r.Format, RequestFormat), Err: events.ErrInvalid}
	}
	var errs []error
	if r.Session != "" {
		errs = append(errs, events.CheckToken("session", r.Session))
	}
	if r.Key != "" {
		errs = append(errs, events.CheckToken("key", r.Key))
	}
	if r.Actor != "" {
		errs = append(errs, events.CheckToken("actor", r.Actor))
	}
	return r, errors.Join(errs...)
}

// DecodeStrict decodes the output of [events.EncodePayload] into v, a pointer to the zero value. It refuses unknown
// fields: an ignored field would change the meaning of the request. The error is an [*events.FieldError] that is
// [ErrRequest]; of an unknown field it has the known ones.
func DecodeStrict(data []byte, v any) error {
	if err := events.DecodePayload(data, v); err != nil {
		if errors.Is(err, events.ErrMalformed) {
			return &events.FieldError{Field: "request", Reason: err.Error(), Err: ErrRequest}
		}
		return err
	}
	again, err := events.EncodePayload(v)
	if err == nil && !bytes.Equal(again, data) {
		if tag, known := events.UnknownTag(data, v); known != nil {
			return UnknownField(clipped(tag), known)
		}
		err = &events.FieldError{Field: "request", Reason: "is not as this format writes it", Err: ErrRequest}
	}
	return err
}

// Wire forms of operations that take or return more than one value.
type (
	// CreateArgs creates a session, with the state that it starts from.
	CreateArgs struct {
		Request  CreateRequest `msgpack:"r"`
		Head     []byte        `msgpack:"h,omitempty"` // of the snapshot
		Segments [][]byte      `msgpack:"s,omitempty"` // of the snapshot; may be left out while its session is there
	}
	// ConfigureArgs replaces a configuration, if Current is the session's.
	ConfigureArgs struct {
		Previous events.Config `msgpack:"p"`
		Current  events.Config `msgpack:"c"`
		Key      string        `msgpack:"k,omitempty"`
	}
	// SubmitResponse is an accepted turn.
	SubmitResponse struct {
		Turn  events.TurnID `msgpack:"t"`
		Input string        `msgpack:"i"` // digest
		Seq   events.Seq    `msgpack:"q"` // of the commit that accepted it
	}
	// SubmitAtArgs requests a turn at a time.
	SubmitAtArgs struct {
		At      events.Millis `msgpack:"t"`
		Request TurnRequest   `msgpack:"r"`
	}
	// CancelArgs cancels a turn.
	CancelArgs struct {
		Turn    events.TurnID `msgpack:"t"`
		Request CancelRequest `msgpack:"r"`
	}
	// CancelResponse is the outcome of a cancel.
	CancelResponse struct {
		Receipt  CancelReceipt `msgpack:"r"`
		Evidence CancelRequest `msgpack:"e"`
	}
	// CancelFromResponse is the outcome of a cancel of an input and of all later ones.
	CancelFromResponse struct {
		Receipt   InputReceipt     `msgpack:"r"`
		Cancelled []events.InputID `msgpack:"c"`
	}
	// ResolveArgs is the result of a call.
	ResolveArgs struct {
		Key    events.EffectID   `msgpack:"k"`
		Result events.ToolResult `msgpack:"r"`
	}
	// AvailabilityArgs overrides the level of tools, all or none.
	AvailabilityArgs struct {
		Names []string        `msgpack:"n" json:"names"`
		Level events.Override `msgpack:"l,omitempty" json:"level" jsonschema:"off, searchable, callable or showcased; empty removes the override"`
	}
	// ProgressArgs is a progress message of a task's program.
	ProgressArgs struct {
		Task    events.TaskID `msgpack:"t" json:"-" path:"task"`
		Message string        `msgpack:"m" json:"message" jsonschema:"at most 1000 bytes"`
	}
	// EndOwnTaskArgs is how a task ended.
	EndOwnTaskArgs struct {
		Task    events.TaskID    `msgpack:"t"`
		State   events.TaskState `msgpack:"s"`
		Summary string           `msgpack:"y,omitempty"`
	}
	// TransitionArgs moves a task to running or waiting.
	TransitionArgs struct {
		Task  events.TaskID    `msgpack:"t"`
		State events.TaskState `msgpack:"s"`
	}
	// RequestCancelTaskArgs requests that a task stops by itself.
	RequestCancelTaskArgs struct {
		Task   events.TaskID `msgpack:"t" json:"-" path:"task"`
		Reason string        `msgpack:"r,omitempty" json:"reason,omitempty" jsonschema:"at most 4000 bytes"`
	}
	// TransferArgs moves tasks to another session, all or none.
	TransferArgs struct {
		To    events.SessionID `msgpack:"t" json:"to"`
		Tasks []events.TaskID  `msgpack:"k" json:"tasks" jsonschema:"ids of tasks; unknown ones are skipped"`
	}
	// ProtocolOptionsArgs sets the protocol's options of the current frame, or of all frames.
	ProtocolOptionsArgs struct {
		Options json.RawMessage `msgpack:"o" json:"options"`
		All     bool            `msgpack:"a,omitempty" json:"all_frames,omitempty" jsonschema:"true: for all frames; else for the current one"`
	}
	// ActionArgs invokes an action of a plugin.
	ActionArgs struct {
		Name string          `msgpack:"n" json:"name"`
		Args json.RawMessage `msgpack:"a,omitempty" json:"args,omitempty"`
	}
)
