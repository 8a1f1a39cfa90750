package wire

import (
	"encoding/json"
	"regexp"
	"time"

	"github.com/lash-go/lash/events"
)

// Sign is a sign of life of an instance.
type Sign struct {
	Hash     string `json:"hash"`               // of the instance's manifest
	Term     string `json:"term,omitempty"`     // of [Registered]
	Draining bool   `json:"draining,omitempty"` // it takes no new calls
	Machine  string `json:"machine,omitempty"`  // where the instance runs, for operators; at most [MaxMachine] bytes
	Running  int64  `json:"running"`            // calls that run
	Calls    int64  `json:"calls,omitempty"`    // that ended since the instance started
	Failures int64  `json:"failures,omitempty"` // of these, calls that failed
	// Withdrawn are questions that no tool waits for any more: a node denies each of them, so that the call goes on.
	Withdrawn []Question `json:"withdrawn,omitempty"`
}

// Question names a question of a call, see [Ask].
type Question struct {
	CallID

	ID string `json:"id"` // of the callback
}

// MaxCount limits the counts of a [Sign].
const MaxCount = 1 << 40

// Validate refuses counts that none has. Errors: [*events.FieldError].
func (s *Sign) Validate() error {
	for field, n := range map[string]int64{"running": s.Running, "calls": s.Calls, "failures": s.Failures} {
		if n < 0 || n > MaxCount {
			return refuse(field, "is %d, want 0 to %d", n, int64(MaxCount))
		}
	}
	if s.Term != "" {
		return events.CheckToken("term", s.Term)
	}
	return nil
}

// CallID names a call: the same for every attempt, on every node.
type CallID struct {
	Session events.SessionID `json:"session"`
	Call    events.EffectID  `json:"call"` // unique in the session
}

// Call is a tool call for an instance.
type Call struct {
	CallID
	Turn  events.TurnID   `json:"turn"`
	Model events.CallID   `json:"model_call"` // the id from the model's reply
	Key   string          `json:"key"`        // idempotency key: the same for every attempt
	Tool  string          `json:"tool"`
	Args  json.RawMessage `json:"args"`
	// Epoch numbers the placements of the session, for plugins of scope session. See [SessionStart].
	Epoch int64 `json:"epoch,omitempty"`
	// Again means that the call may have reached this instance before: an instance that may have dropped its outcome
	// must not run it.
	Again bool `json:"again,omitempty"`
	// Once means that the call must not run twice, whatever the tool declares: a program that may have lost it in the
	// middle says so, and does not run it again.
	Once bool `json:"once,omitempty"`
	// Term is that of the program which the node means: one with another term does not answer. Empty: any.
	Term string `json:"term,omitempty"`
}

// Progress is one answer to a [Call]. At most one field is set; none is a sign of life. The last answer has an outcome,
// an error or Forgotten.
type Progress struct {
	Output    *Output   `json:"output,omitempty"`    // what the tool has printed, for people that watch
	Callback  *Callback `json:"callback,omitempty"`  // a request of the tool to the node that holds the call
	Piece     *Piece    `json:"piece,omitempty"`     // of an outcome that is too large for one message
	Outcome   *Outcome  `json:"outcome,omitempty"`   // the tool has returned
	Pieces    int       `json:"pieces,omitempty"`    // the tool has returned, with an outcome of this many pieces, all sent before
	Error     *Error    `json:"error,omitempty"`     // the call is refused: the tool has not run, and does not run
	Forgotten bool      `json:"forgotten,omitempty"` // the call may have run, and the instance does not have its outcome
}

// Last reports whether no answer follows.
func (p *Progress) Last() bool {
	return p.Outcome != nil || p.Pieces > 0 || p.Error != nil || p.Forgotten
}

// Limits of answers to a call.
const (
	MaxInlineBytes     = 512 << 10 // of the JSON of an outcome in one message; a larger one is sent in pieces of this size
	MaxOutcomeBytes    = 32 << 20  // of the JSON of an outcome
	MaxAttachment      = 5 << 20   // of one attachment
	MaxAttachments     = 20 << 20  // of all attachments of an outcome
	MaxAttachmentCount = 256       // of an outcome: its event has a reference to each
	MaxOutputBytes     = 16 << 10  // of one [Output]
	MaxOutputOffset    = 1 << 50   // of an [Output]: clients add its length
	OutputsPerSecond   = 20        // that an instance sends for one call
	MaxCallbackBytes   = 256 << 10 // of the body of a [Callback]
	MaxCallbackAnswer  = 512 << 10 // of the body of a [CallbackAnswer]
	MaxCallbacks       = 16        // that one call waits for at once
	MaxBodyBytes       = 20 << 20  // of a body that a call stores or reads
	MaxBodyPiece       = 128 << 10 // of the data of one [BodyPiece]
	MaxArgsBytes       = 700 << 10 // of the arguments of a call
	CancelGrace        = 10 * time.Second
	CallbackLate       = 3 * time.Second // an instance waits so long after a call's end for the answer of a callback that it sent
	CallbackRepeat     = 2 * time.Second // an instance repeats a callback that has no answer
	MaxFailureMessage  = 16 << 10
)

// What an instance keeps, and for how long.
const (
	KeepOutcome     = 10 * time.Minute          // that no node says is recorded
	MaxKeptBytes    = 64 << 20                  // of all outcomes; beyond it the oldest are dropped
	MaxKnownCalls   = 1 << 16                   // ended calls whose ids it knows, so that a late message runs none again
	MaxSessions     = 1 << 16                   // sessions, of a plugin of scope session
	LeaveWait       = 500 * time.Millisecond    // that an instance takes calls after it said that it drains
	RegisterRepeat  = 2 * time.Second           // without an answer
	MaxInstanceName = events.MaxTokenBytes - 13 // of the name that begins an id; a hyphen and 12 random characters follow
)

// Output is text that a running tool has printed. Outputs may be lost: Offset shows the gap. The outcome counts.
type Output struct {
	Seq    int64  `json:"seq"`              // from 1, without gaps where none is lost
	Offset int64  `json:"off"`              // of the text among all bytes that the tool printed to the stream
	Stream string `json:"stream,omitempty"` // "stdout" by default, "stderr", "log" or "progress"
	Text   string `json:"text"`             // UTF-8, 1 to [MaxOutputBytes] bytes
}

// Callback is a request of the HTTP API that the node performs for a running call. The OpenAPI document of the API has
// the paths, bodies and answers. The operator lists the operations that the plugin may use. A request reaches only the
// call's session and the sessions below it. The id is the request's idempotency key within the call: a repeat, also one
// of another attempt of the call, gets the first one's result.
type Callback struct {
	ID     string          `json:"id"` // a token, unique in the call. Equal code of a tool gives equal requests equal ids
	Method string          `json:"method"`
	Path   string          `json:"path"` // e.g. "/v1/sessions/S/turns", with a query where the API has one
	Body   json.RawMessage `json:"body,omitempty"`
}

// CallbackAnswer answers a [Callback]. Status and body are those of the HTTP API: 403 for an operation that the
// operator does not list.
type CallbackAnswer struct {
	CallID
	ID     string          `json:"id"`
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// BodyPiece is a part of a body of a session. It is the body of a callback that stores one, POST /v1/sessions/SESSION/blobs,
// and of the answer of one that reads it, GET /v1/sessions/SESSION/blobs/DIGEST?offset=OFFSET. The API itself has the bytes in
// their place, which callbacks cannot have. The status of a piece that is not the last one is 202; that of one which
// does not follow the one before is 409, as at a node that has taken the call over: the first piece comes next.
type BodyPiece struct {
	Digest string `json:"digest"` // hex sha256 of the whole body
	Size   int64  `json:"size"`   // of the whole body
	Offset int64  `json:"offset"` // of the data; the first piece of a body has 0
	Data   []byte `json:"data"`
}

// AskOperation is the name by which the operator lets a plugin ask people, and AskPath the path of the callback, with
// method POST, an [Ask] as its body and an [Answer] as that of its answer. It is no operation of the HTTP API: only a call
// that runs can ask.
const (
	AskOperation = "ask"
	AskPath      = "/v1/ask"
)

// Limits of an [Ask].
const (
	MaxQuestion   = 4000
	MaxAskDetails = 32 << 10
)

// Ask is a question of a running call. People answer it as an approval.
type Ask struct {
	Question string          `json:"question"`
	Details  json.RawMessage `json:"details,omitempty"` // that people see with the question, such as the form of the answer
}

// Answer is the answer to an [Ask].
type Answer struct {
	Granted bool   `json:"granted"`
	Reason  string `json:"reason,omitempty"` // what the person wrote
	By      string `json:"by,omitempty"`     // the caller that answered
}

// Piece is a part of the JSON of an [Outcome].
type Piece struct {
	N    int    `json:"n"` // from 0, in order
	Data []byte `json:"data"`
}

// Outcome is the result of a tool, or its failure.
type Outcome struct {
	Text        string            `json:"text,omitempty"` // for the model
	Attachments []Attachment      `json:"attachments,omitempty"`
	Control     events.Control    `json:"control,omitempty"` // whether the turn ends with this result
	Emit        []json.RawMessage `json:"emit,omitempty"`    // events for the hosts that watch the session, recorded with the result
	Failure     *Failure          `json:"failure,omitempty"` // excludes the other fields
	Cancelled   bool              `json:"cancelled,omitempty"`
}

// Attachment is a picture or a file of a result: its bytes, or the digest and the size of a body that the history of the call's
// session names.
type Attachment struct {
	MediaType string `json:"media_type"`
	Data      []byte `json:"data,omitempty"` // base64 in JSON
	Digest    string `json:"digest,omitempty"`
	Size      int64  `json:"size,omitempty"`
}

// mediaType is the form of a type: two tokens of RFC 9110, and parameters. Providers get it within a URL and JSON.
var mediaType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*( *; *[A-Za-z0-9!#$&^_.+-]+=[A-Za-z0-9!#$&^_.+-]+)*$`)

// CheckMediaType refuses what is no media type. Errors: an [*events.FieldError].
func CheckMediaType(field, s string) error {
	if s == "" || len(s) > events.MaxIDBytes {
		return refuse(field, "has %d bytes, want 1 to %d", len(s), events.MaxIDBytes)
	}
	if !mediaType.MatchString(s) {
		return refuse(field, "is %.64q, want a type such as image/png", s)
	}
	return nil
}

// Bytes is the size of the contents, roughly that of the message.
func (o *Outcome) Bytes() int {
	n := len(o.Text)
	for i := range o.Attachments {
		n += len(o.Attachments[i].Data)
	}
	for _, e := range o.Emit {
		n += len(e)
	}
	if o.Failure != nil {
		n += len(o.Failure.Message)
	}
	return n
}

// Cancel ends a call. The tool's context ends; the call is answered as usual, within the grace.
type Cancel struct {
	CallID
	Reason  string `json:"reason,omitempty"`
	GraceMS int64  `json:"grace_ms"` // after it the node records the call as cancelled without its outcome
}

// Failure says why a tool failed.
type Failure struct {
	Class   string `json:"class,omitempty"` // of package plugin. Defaults to "execution"
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Safe    bool   `json:"safe,omitempty"` // a retry does no harm
}
