package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// ErrStop in the error of a [Caller] ends the run: [Run] returns that error. Any other error of a caller is a failure
// of the tool, which the
// program sees.
var ErrStop = errors.New("stop the run")

// Caller runs tools for the program. gather calls Call from several goroutines; all other calls are one at a time.
type Caller interface {
	// Call runs one tool and returns its value as JSON. Ordinals count the calls and starts of a run from 0 in
	// program order: a repeated run
	// gets the recorded answers.
	Call(ctx context.Context, c Call) (json.RawMessage, error)
	// Start starts a tool without waiting and returns the id of the handle.
	Start(ctx context.Context, c Call) (id string, err error)
	// Await returns the value of a started tool, of this run or an earlier one. It may be called repeatedly.
	Await(ctx context.Context, id string) (json.RawMessage, error)
	// Attachments returns a JSON array of the conversation's attachments, see [Attachment].
	Attachments(ctx context.Context) (json.RawMessage, error)
	// Message sends a text of the running program. A repeated run sends it again.
	Message(text, kind string)
}

// Call is one call of a tool.
type Call struct {
	Ordinal int // from 0
	Tool    string
	Args    json.RawMessage // an object, keys sorted
	Whole   bool            // the value is an object with the tool's value and attachments, see [Whole]
}

// Whole is the value of a tool with the attachments of its result.
type Whole struct {
	Value       json.RawMessage `json:"value"`
	Attachments []Attachment    `json:"attachments"`
}

// Attachment is a picture or a file: a reference to its bytes, or a URL. Programs have it as a dict.
type Attachment struct {
	MediaType string `json:"media_type"`
	Digest    string `json:"digest,omitempty"`
	Size      int64  `json:"size,omitempty"` // of the bytes
	URL       string `json:"url,omitempty"`
}

// Request is one program to run.
type Request struct {
	Now          time.Time // for the program
	Code         string
	Session      string             `json:"-"` // whose share of [Limits.Memory] it has
	Tools        []string           // names of those that it may call
	State        []byte             // of the run before; empty for the first
	AcceptFinish bool               // finish may end the turn
	FinishSchema *jsonschema.Schema // of the value of finish; nil accepts any
}

// Response is the result of a run.
type Response struct {
	Output    string // the printed text, and the names that could not be kept
	Truncated int64  // bytes cut out of Output
	Shown     []Attachment
	Calls     int // of tools, started ones included
	Finished  bool
	Value     json.RawMessage `json:",omitempty"` // of finish
	Continue  *Continuation   // of continue_as; nil if it was not called
	Error     string          // for the model; empty if the program ran to its end
	State     []byte          // for the next run
	Dirty     bool            // State differs from the request's
	Steps     uint64
}

// Continuation is the arguments of continue_as.
type Continuation struct {
	Task  string
	Names []string // of the next program's variables, sorted
	State []byte   // of the next program
}
