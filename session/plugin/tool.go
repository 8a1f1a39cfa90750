package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/schema"
)

// Tool declares a tool.
type Tool struct {
	Name        string // 1 to 64 characters of A-Z a-z 0-9 _ -
	Description string
	Effects     events.Effects // zero is non-idempotent: a call runs at most once
	Retry       Retry
	Timeout     time.Duration       // of one attempt; 0 means no limit
	Serial      bool                // runs alone, after the other calls of its reply
	Level       events.Availability // visibility in the catalogue. Defaults to showcased
	Source      string              // name of the provider. Defaults to the plugin's id
	// Portable means that the handler needs nothing of the turn's process: no plugin state and no nested calls.
	// A node without the tool role sends the call to a node that has this role.
	Portable bool
	// Where is where a call of the tool runs now, as of the process that is asked. A call that runs elsewhere goes to a node
	// with the tool role that has the tool here. It must not block. nil: here.
	Where func() Where
	// Stays means that a call goes on in its process while people think: [Call.Ask] returns their answer. Where the process
	// ends meanwhile, the call is lost or runs again, as its effects say.
	Stays bool
	// Holder chooses which instance of an external program gets a call that must not run twice. It returns "" where none
	// is free. term is that of the program which has the id; empty where it has none. The history records the choice before the call
	// starts: after a takeover the same program gets the call, and no other one with its id.
	// nil: the tool runs in the node's process. For a call with Inner set the handler chooses the instance itself.
	// Holder must not block. A state of the plugin that it changes is saved with the choice.
	Holder func(events.SessionID, events.EffectID) (id, term string)
	// Recorded is called when no worker asks for the result of a call again: the history has it. It is a hint, which may
	// be lost. It must not block. nil: the tool needs none.
	Recorded func(Call)
	// Abandoned is called when a cancelled turn ends a call that no effect of this node runs, as one that waits for an
	// answer: its program may still run it. It is a hint, which may be lost. It must not block. nil: the tool needs none.
	Abandoned func(Call)
	// Grace is how long the turn of a cancelled call waits for the call's result. Defaults to 500 ms.
	Grace time.Duration
	// Schema is the JSON schema of the arguments. Defaults to the schema of the argument type.
	Schema *jsonschema.Schema

	Namespace string             // groups the tool with others in searches: a tool name, or empty
	Aliases   []string           // more words that searches match; calls use Name only
	Output    *jsonschema.Schema // describes results that are JSON, for readers. Results are not validated
	Examples  []json.RawMessage  // example arguments, which must match Schema
}

// Where is where a tool runs.
type Where int

// Values of [Where].
const (
	WhereHere      Where = iota // in this process
	WhereElsewhere              // on another node
	WhereNowhere                // no node has it
)

// At is [Tool.Where], which may be nil.
func (t *Tool) At() Where {
	if t.Where == nil {
		return WhereHere
	}
	return t.Where()
}

// Retry is the retry policy of failed calls. Only a [Failure] with Safe set is retried. Further attempts of a call of a
// turn are in the history before they begin.
type Retry struct {
	Attempts int           // total number of attempts; 0 and 1 mean no retry
	Base     time.Duration // before the second attempt; doubles
	Max      time.Duration // limit of one wait; 0 means no limit
}

// Call describes one call of a tool.
type Call struct {
	Session events.SessionID
	Turn    events.TurnID
	Effect  events.EffectID   // unique in the session
	ID      events.CallID     // from the model's reply
	Key     string            // idempotency key: the same for the tool and its hooks, every attempt, on every worker
	Attempt int               // from 1
	Holder  string            // that the history names, see [Tool.Holder]
	Term    string            // of Holder; empty where the history names none
	Again   bool              // an earlier worker may have started the call
	Inner   bool              // another call made it, or it runs in the background: no event names its Holder
	Once    bool              // the history says that the call must not run twice, whatever this node's tool declares
	Places  map[string]string // where rules judged the files and directories of the arguments to be, see [JudgePlaces]; nil: no rule did
	Host    ToolHost          // capabilities of the session; nil for tools that run without a session
	Run     Running           `json:"-"` // what the process that runs the call does for it, which sets it
}

// Running is what the process that runs a call does for it. The methods of [Call] use it. The zero value can do nothing.
type Running struct {
	Nested      NestedFunc
	Output      OutputFunc
	Request     RequestFunc
	Ask         AskFunc
	Bodies      BodyHost                    // stores and reads bodies in place of [Call].Host
	Save        func(context.Context) error // as that of [WithSave]; nil outside of a running turn
	Environment func(named string) (Environment, error)
	Pending     *bool // set by [Call.CompletionKey]
}

// NestedCall is a call that a tool makes.
type NestedCall struct {
	Tool string
	Args json.RawMessage // empty means {}
}

// NestedResult is the outcome of a [NestedCall]. A failed tool is a Result with its outcome.
// Err means that the outer call must end with this error.
type NestedResult struct {
	Result
	Err error
}

// NestedFunc runs calls that a tool makes.
type NestedFunc func(ctx context.Context, first int, list []NestedCall) []NestedResult

// Nested runs calls concurrently, as calls of the model run: with hooks, catalogue and validation of arguments.
// Serial tools follow the others. first is the number of the first call of the list among all calls that this tool
// makes.
//
// After a crash the outer call runs again. A nested call that returned before then gives its recorded result.
// So the tool must be repeatable and must make the same calls in the same order.
func (c Call) Nested(ctx context.Context, first int, list []NestedCall) []NestedResult {
	if c.Run.Nested != nil {
		return c.Run.Nested(ctx, first, list)
	}
	results := make([]NestedResult, len(list))
	for i := range results {
		results[i].Err = &Failure{Class: ClassUnavailable, Code: CodeUnavailable, Message: "calls inside this call are not possible here"}
	}
	return results
}

// CompletionKey names the call for a result from outside. Any client with the key may resolve the call,
// days later and on another node. The tool then returns a [Result] with Pending set.
func (c Call) CompletionKey() events.EffectID {
	if c.Run.Pending != nil {
		*c.Run.Pending = true
	}
	return c.Effect
}

// Result is the result of a tool call.
type Result struct {
	Text        string             // text for the model
	Attachments []events.Part      // with their bytes, or with a reference to a body that the session's history names, see [BodyHost]
	Outcome     events.Outcome     // zero is success
	Control     events.Control     // of a success: whether the turn ends with this result
	Switch      events.FrameSwitch // for [events.ControlSwitch]
	Emit        []json.RawMessage  `msgpack:"-"` // of a tool: events for the hosts that watch the session, recorded with the result
	Pending     bool               // the result comes later, see [Call.CompletionKey]
	Class, Code string             // of a failure
}

// Check refuses a result that the history cannot record.
func (r *Result) Check() error {
	recorded := events.ToolResult{Outcome: r.Outcome, Attachments: r.Attachments, Control: r.Control, Switch: r.Switch}
	return errors.Join(checkEvents(r.Emit), (&events.ToolReturned{Results: []events.ToolResult{recorded}}).Validate())
}

// Handler runs a tool. args is valid JSON that matches the schema. The model sees the error as a failed call; a
// [*Failure] gives details.
type Handler func(ctx context.Context, call Call, args json.RawMessage) (Result, error)

// Failure is an error of a tool with details for the model and for the retry policy.
type Failure struct {
	Class   string // one of the Class constants
	Code    string
	Message string
	Safe    bool          // a retry does no harm
	After   time.Duration // earliest retry; 0 uses the tool's policy
}

func (f *Failure) Error() string { return f.Message }

// InvalidArgs is the failure of a call whose arguments a tool refuses: class [ClassInvalidRequest], code [CodeInvalidArgs].
// Name the argument and its limit: the model reads it and calls again.
func InvalidArgs(format string, args ...any) *Failure {
	return &Failure{Class: ClassInvalidRequest, Code: CodeInvalidArgs, Message: fmt.Sprintf(format, args...)}
}

// Classes of failures.
const (
	ClassInvalidRequest   = "invalid_request"
	ClassUnavailable      = "unavailable"
	ClassPermissionDenied = "permission_denied"
	ClassTimeout          = "timeout"
	ClassExecution        = "execution"
	ClassExternal         = "external"
	ClassResourceLimit    = "resource_limit"
	ClassInternal         = "internal"
)

// Tools is a set of tools by name. After construction it is read-only.
type Tools struct {
	byName  map[string]*BoundTool
	entries []events.ToolEntry
}

// BoundTool is a tool with its compiled schema and its handler.
type BoundTool struct {
	Tool
	Handler Handler
	schema  *jsonschema.Resolved
	entry   events.ToolEntry
}

// ToolAdder accepts tools: a [Tools] set or a [Registrar].
type ToolAdder interface {
	add(tool Tool, run Handler) error
}

// NewTools returns an empty set.
func NewTools() *Tools { return &Tools{byName: make(map[string]*BoundTool)} }

// AddTool registers a typed tool. The argument schema comes from the struct In. A result of type string becomes the
// text; a [Result] stays as it is; other types become JSON. Registration is static, so AddTool panics on an invalid
// declaration.
func AddTool[In, Out any](tools ToolAdder, tool Tool, run func(context.Context, Call, In) (Out, error)) {
	if tool.Schema == nil {
		schema, err := jsonschema.For[In](nil)
		if err != nil {
			panic(fmt.Sprintf("plugin: tool %s: arguments have no schema: %v", tool.Name, err))
		}
		tool.Schema = schema
	}
	err := tools.add(tool, func(ctx context.Context, call Call, args json.RawMessage) (Result, error) {
		var in In
		err := json.Unmarshal(args, &in)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && strings.HasPrefix(wrong.Value, "number") {
			in = *new(In)
			err = json.Unmarshal(withIntegers(args), &in)
		}
		if err != nil {
			return Result{}, InvalidArgs("%v", err)
		}
		out, err := run(ctx, call, in)
		if err != nil {
			return Result{}, err
		}
		if result, ok := any(out).(Result); ok {
			return result, nil
		}
		text, err := textOf(out)
		return Result{Text: text}, err
	})
	if err != nil {
		panic("plugin: " + err.Error())
	}
}

func textOf(out any) (string, error) {
	if s, ok := out.(string); ok {
		return s, nil
	}
	data, err := json.Marshal(out)
	return string(data), err
}

// Add registers a tool with raw JSON arguments. A nil schema accepts any object.
func (t *Tools) Add(tool Tool, run Handler) error { return t.add(tool, run) }

func (t *Tools) add(tool Tool, run Handler) error {
	if err := events.CheckToken("tool.name", tool.Name); err != nil {
		return err
	}
	return t.AddNamed(tool, run)
}

// AddNamed is [Tools.Add] without the check of the name, for tools of recorded conversations.
func (t *Tools) AddNamed(tool Tool, run Handler) error {
	bound, err := bind(tool, run)
	if err != nil {
		return err
	}
	return t.put(bound)
}

func bind(tool Tool, run Handler) (*BoundTool, error) {
	if tool.Schema == nil {
		tool.Schema = &jsonschema.Schema{Type: "object"}
	}
	resolved, err := schema.Compile("schema", tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	text, err := schema.Object("schema", tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	entry := events.ToolEntry{
		Name: tool.Name, Description: tool.Description, Effects: tool.Effects, Source: tool.Source,
		Availability: tool.Level, Serial: tool.Serial, Namespace: tool.Namespace, Aliases: tool.Aliases,
	}
	bound := &BoundTool{Tool: tool, Handler: run, schema: resolved}
	if err := bound.describe(&entry, text); err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	if err := checkEntry(entry); err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	bound.entry = entry
	return bound, nil
}

// describe sets the contract.
func (r *BoundTool) describe(entry *events.ToolEntry, of json.RawMessage) error {
	contract := events.Contract{Schema: of, Examples: r.Examples}
	if r.Output != nil {
		if _, err := schema.Compile("output", r.Output); err != nil {
			return err
		}
		text, err := json.Marshal(r.Output)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		contract.Output = text
	}
	for i, example := range r.Examples {
		if !json.Valid(example) {
			return fmt.Errorf("examples[%d]: is no JSON", i)
		}
		if _, err := r.Check(example); err != nil {
			return fmt.Errorf("examples[%d]: %w", i, err)
		}
	}
	return entry.SetContract(contract)
}

// checkEntry refuses a tool that the history cannot record.
func checkEntry(entry events.ToolEntry) error {
	return (&events.ToolStateApplied{Tools: []events.ToolEntry{entry}}).Validate()
}

func (t *Tools) put(tool *BoundTool) error {
	if _, exists := t.byName[tool.Name]; exists {
		return fmt.Errorf("tool %s is registered twice", tool.Name)
	}
	t.byName[tool.Name] = tool
	i, _ := slices.BinarySearchFunc(t.entries, tool.Name, func(e events.ToolEntry, name string) int { return strings.Compare(e.Name, name) })
	t.entries = slices.Insert(t.entries, i, tool.entry)
	return nil
}

func (t *Tools) names() []string {
	list := make([]string, len(t.entries))
	for i := range t.entries {
		list[i] = t.entries[i].Name
	}
	return list
}

// Entries lists the tools as they are recorded, sorted by name. The caller must not change the list.
func (t *Tools) Entries() []events.ToolEntry { return t.entries }

// Find returns the tool of a name.
func (t *Tools) Find(name string) (*BoundTool, bool) {
	r, ok := t.byName[name]
	return r, ok
}

// Codes of failures that the dispatch of calls reports.
const (
	CodeInvalidArgs  = "invalid_tool_args"
	CodeUnavailable  = "tool_unavailable"
	CodeTaskFailed   = "tool_task_failed"
	CodeBefore       = "before_tool_call_failed"
	CodeAfter        = "after_tool_call_failed"
	CodeCreate       = "plugin_session_create_failed"
	CodeDenied       = "approval_denied"
	CodePendingKey   = "pending_tool_missing_completion_key"
	CodePendingShort = "pending_tool_short_circuit"

	CodePendingNested = "pending_tool_nested"
	CodeNestedChanged = "nested_call_changed"
	CodeUnknownBody   = "unknown_body" // an attachment refers to a body that the session's history does not name

	CodeUnknownEnvironment = "unknown_environment"
)

// Check validates arguments. Input that is no JSON counts as {}, so that the model gets the schema's error message.
func (r *BoundTool) Check(args []byte) (json.RawMessage, error) {
	if err := events.CheckJSON("arguments", args); err != nil {
		return nil, InvalidArgs("%v", err)
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		args, value = []byte("{}"), map[string]any{}
	}
	if err := r.schema.Validate(value); err != nil {
		return nil, InvalidArgs("%v", err)
	}
	return args, nil
}
