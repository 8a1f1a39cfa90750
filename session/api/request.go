package api

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// RequestFormat is the version of requests and answers. A node refuses others.
const RequestFormat = 1

// MaxRequestBytes bounds an encoded request and an encoded answer, so that it
// fits a 1 MiB message. Larger bodies are put into blobs first, and named by their references.
const MaxRequestBytes = events.MaxCommitBytes

// Request is what travels to a node: [Asked], the session, and what is asked.
type Request struct {
	Format  int64            `msgpack:"f"`
	Actor   string           `msgpack:"a,omitempty"`
	Key     string           `msgpack:"k,omitempty"`
	Since   events.Seq       `msgpack:"q,omitempty"` // of earlier clients: nothing reads it
	Session events.SessionID `msgpack:"s,omitempty"`
	Body    []byte           `msgpack:"b,omitempty"` // of the operation's own type
}

// Answer is what comes back: one of error and body is set.
type Answer struct {
	Error ErrorBody  `msgpack:"e,omitempty"`
	Body  []byte     `msgpack:"b,omitempty"` // of the operation's own type
	Seq   events.Seq `msgpack:"q,omitempty"` // of the commit that the request made; 0 where it made none
}

// EncodeRequest writes a request. One that is too large is an
// [*events.FieldError] that is [events.ErrTooLarge].
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

// DecodeRequest reads a request and checks its envelope. The error is of class invalid.
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

// DecodeStrict reads what [events.EncodePayload] wrote into v, a pointer to
// the zero value, and nothing else: a field that this program does not know
// would be part of what is asked, and must not be passed over. What is not that is an
// [*events.FieldError] that is [ErrRequest].
func DecodeStrict(data []byte, v any) error {
	if err := events.DecodePayload(data, v); err != nil {
		if errors.Is(err, events.ErrMalformed) {
			return &events.FieldError{Field: "request", Reason: err.Error(), Err: ErrRequest}
		}
		return err
	}
	again, err := events.EncodePayload(v)
	if err == nil && !bytes.Equal(again, data) {
		err = &events.FieldError{Field: "request", Reason: "has unknown fields, or is not as this format writes it", Err: ErrRequest}
	}
	return err
}

// What is asked, and answered, of operations that take or give more than one value.
type (
	// CreateArgs is a request with the state that it starts from.
	CreateArgs struct {
		Request  CreateRequest `msgpack:"r"`
		Head     []byte        `msgpack:"h,omitempty"` // of the snapshot
		Segments [][]byte      `msgpack:"s,omitempty"` // of it, as far as blobs may not have them
	}
	// ConfigureArgs replaces a configuration, if it is the one that the session has.
	ConfigureArgs struct {
		Previous events.Config `msgpack:"p"`
		Current  events.Config `msgpack:"c"`
		Key      string        `msgpack:"k,omitempty"`
	}
	// SubmitAnswer is a turn that was accepted.
	SubmitAnswer struct {
		Turn  events.TurnID `msgpack:"t"`
		Input string        `msgpack:"i"` // digest
		Seq   events.Seq    `msgpack:"q"` // of the commit that accepted it
	}
	// SubmitAtArgs asks for a turn at a time.
	SubmitAtArgs struct {
		At      events.Millis `msgpack:"t"`
		Request TurnRequest   `msgpack:"r"`
	}
	// CancelArgs cancels a turn.
	CancelArgs struct {
		Turn    events.TurnID `msgpack:"t"`
		Request CancelRequest `msgpack:"r"`
	}
	// CancelAnswer is what that met.
	CancelAnswer struct {
		Receipt  CancelReceipt `msgpack:"r"`
		Evidence CancelRequest `msgpack:"e"`
	}
	// CancelFromAnswer is what the cancel of an input and of all after it met.
	CancelFromAnswer struct {
		Receipt   InputReceipt     `msgpack:"r"`
		Cancelled []events.InputID `msgpack:"c"`
	}
	// ResolveArgs is the result of a call.
	ResolveArgs struct {
		Key    events.EffectID   `msgpack:"k"`
		Result events.ToolResult `msgpack:"r"`
	}
	// AvailabilityArgs overrides the level of tools.
	AvailabilityArgs struct {
		Names []string        `msgpack:"n"`
		Level events.Override `msgpack:"l,omitempty"`
	}
	// ProgressArgs is what a task's program has to say.
	ProgressArgs struct {
		Task    events.TaskID `msgpack:"t"`
		Message string        `msgpack:"m"`
	}
	// EndTaskArgs is how a task ended.
	EndTaskArgs struct {
		Task    events.TaskID    `msgpack:"t"`
		State   events.TaskState `msgpack:"s"`
		Summary string           `msgpack:"y,omitempty"`
	}
	// RequestCancelArgs asks a task to stop by itself.
	RequestCancelArgs struct {
		Task   events.TaskID `msgpack:"t"`
		Reason string        `msgpack:"r,omitempty"`
	}
	// TransferArgs moves tasks to another session.
	TransferArgs struct {
		To    events.SessionID `msgpack:"t"`
		Tasks []events.TaskID  `msgpack:"k"`
	}
	// ProtocolOptionsArgs sets the protocol's options of the current frame, or of all.
	ProtocolOptionsArgs struct {
		Options []byte `msgpack:"o"` // JSON
		All     bool   `msgpack:"a,omitempty"`
	}
	// ActionArgs asks a plugin for an action.
	ActionArgs struct {
		Name string `msgpack:"n"`
		Args []byte `msgpack:"a,omitempty"` // JSON
	}
)
