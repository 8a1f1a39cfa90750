package plugin

import (
	"context"
	"encoding/json"
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
	Effects     events.Effects // zero is non-idempotent: runs at most once
	Retry       Retry
	Timeout     time.Duration       // of one attempt; 0 means none
	Serial      bool                // runs alone, after the other calls of its reply
	Level       events.Availability // how far it is offered. Defaults to showcased
	Source      string              // who provides it
	// Portable says that the handler needs nothing of the turn's process: no state of
	// its plugin, no calls of its own. A node without the tool role hands it to one that has it.
	Portable bool
	// Schema is the JSON schema of the arguments. Defaults to what the type of the arguments says.
	Schema *jsonschema.Schema

	Namespace string             // that it is found under, with others: as a name; or empty
	Aliases   []string           // other words that it is found by; it is called by its name alone
	Output    *jsonschema.Schema // of what it returns, where that is JSON: for its readers, results are not held to it
	Examples  []json.RawMessage  // arguments of calls, which the schema accepts
}

// Retry says when a failed call is tried again (host specification 6.7).
// Only failures that say so themselves are, see [Failure].
type Retry struct {
	Attempts int           // in all; 0 and 1 mean never again
	Base     time.Duration // before the second try; doubles
	Max      time.Duration // of one wait; 0 means no cap
}

// Call is one call of a tool.
type Call struct {
	Session events.SessionID
	Turn    events.TurnID
	Effect  events.EffectID // unique in the session
	ID      events.CallID   // as the model gave it
	Key     string          // idempotency key: the same in every attempt, on every worker
	Attempt int             // from 1
	Host    ToolHost        // what the call may ask of its host; nil in tools that run outside of sessions

	pending *bool // set when the key was asked for
	nested  NestedFunc
}

// Inner is a call that a tool makes.
type Inner struct {
	Tool string
	Args json.RawMessage // empty is {}
}

// InnerResult is what it came to. An error is not the called tool's failure:
// the outer call has to end with it.
type InnerResult struct {
	Result
	Err error
}

// NestedFunc makes calls inside a call.
type NestedFunc func(ctx context.Context, first int, list []Inner) []InnerResult

// Nested makes calls beside each other, as the model's own are made: hooks,
// catalogue, arguments; the serial ones follow the others. first numbers the
// first of them among all that this call makes. When it runs again after a
// crash, a call that returned before answers the same without running; so the
// tool, which must be repeatable, has to make the same calls again.
func (c Call) Nested(ctx context.Context, first int, list []Inner) []InnerResult {
	if c.nested != nil {
		return c.nested(ctx, first, list)
	}
	results := make([]InnerResult, len(list))
	for i := range results {
		results[i].Err = &Failure{Class: ClassUnavailable, Code: CodeUnavailable, Message: "calls inside this call are not possible here"}
	}
	return results
}

// Nesting lets the call make calls.
func (c Call) Nesting(run NestedFunc) Call {
	c.nested = run
	return c
}

// CompletionKey promises a result from outside: whoever has the key resolves
// the call, also days later and on another node. The tool then returns a
// [Result] with Pending set.
func (c Call) CompletionKey() events.EffectID {
	if c.pending != nil {
		*c.pending = true
	}
	return c.Effect
}

// Track lets the caller find out whether the completion key was asked for.
func (c Call) Track(asked *bool) Call {
	c.pending = asked
	return c
}

// Result is what a tool gives back.
type Result struct {
	Text        string // what the model reads
	Attachments []events.Part
	Outcome     events.Outcome     // zero is success
	Control     events.Control     // of successes: whether the turn ends with this result
	Switch      events.FrameSwitch // of [events.ControlSwitch]
	Pending     bool               // the result comes later, see [Call.CompletionKey]
	Class, Code string             // of failures
}

// Check finds what no history could hold.
func (r *Result) Check() error {
	recorded := events.ToolResult{Outcome: r.Outcome, Attachments: r.Attachments, Control: r.Control, Switch: r.Switch}
	return (&events.ToolReturned{Results: []events.ToolResult{recorded}}).Validate()
}

// Handler runs a tool. args is valid JSON that the schema accepts. An error
// is a failure that the model sees; [*Failure] says more about it.
type Handler func(ctx context.Context, call Call, args json.RawMessage) (Result, error)

// Failure is a tool's own account of what went wrong.
type Failure struct {
	Class   string // see the classes
	Code    string
	Message string
	Safe    bool          // trying again cannot do harm
	After   time.Duration // not before; 0 leaves it to the policy
}

func (f *Failure) Error() string { return f.Message }

// The classes of failures (host specification 6.6).
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

// Tools is a set of tools by name. It is built once, then only read.
type Tools struct {
	byName  map[string]*Registered
	entries []events.ToolEntry
}

// Registered is a tool ready to run.
type Registered struct {
	Tool
	Handler Handler
	schema  *jsonschema.Resolved
	entry   events.ToolEntry
}

// Registry takes tools: a set, or a plugin's registrar.
type Registry interface {
	add(tool Tool, run Handler) error
}

// NewTools is an empty set.
func NewTools() *Tools { return &Tools{byName: make(map[string]*Registered)} }

// AddTool registers a typed tool. The schema of its arguments comes from In,
// a struct; what it returns becomes text: a string as it is, anything else as
// JSON. It panics on a declaration that can never work, as registration is static.
func AddTool[In, Out any](tools Registry, tool Tool, run func(context.Context, Call, In) (Out, error)) {
	if tool.Schema == nil {
		schema, err := jsonschema.For[In](nil)
		if err != nil {
			panic(fmt.Sprintf("plugin: tool %s: arguments have no schema: %v", tool.Name, err))
		}
		tool.Schema = schema
	}
	err := tools.add(tool, func(ctx context.Context, call Call, args json.RawMessage) (Result, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return Result{}, &Failure{Class: ClassInvalidRequest, Code: CodeInvalidArgs, Message: err.Error()}
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

// Add registers a tool whose arguments stay raw. A nil schema accepts any object.
func (t *Tools) Add(tool Tool, run Handler) error { return t.add(tool, run) }

func (t *Tools) add(tool Tool, run Handler) error {
	if err := events.CheckToken("tool.name", tool.Name); err != nil {
		return err
	}
	return t.AddNamed(tool, run)
}

// AddNamed is Add for names that came with recorded conversations, which no rule of ours binds.
func (t *Tools) AddNamed(tool Tool, run Handler) error {
	registered, err := register(tool, run)
	if err != nil {
		return err
	}
	return t.put(registered)
}

func register(tool Tool, run Handler) (*Registered, error) {
	if tool.Schema == nil {
		tool.Schema = &jsonschema.Schema{Type: "object"}
	}
	resolved, err := schema.Compile("schema", tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	text, err := json.Marshal(tool.Schema)
	if err != nil {
		return nil, fmt.Errorf("tool %s: schema: %w", tool.Name, err)
	}
	entry := events.ToolEntry{
		Name: tool.Name, Description: tool.Description, Schema: text, Effects: tool.Effects, Source: tool.Source,
		Availability: tool.Level, Serial: tool.Serial,
	}
	registered := &Registered{Tool: tool, Handler: run, schema: resolved}
	if err := registered.describe(&entry); err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	if err := checkEntry(entry); err != nil {
		return nil, fmt.Errorf("tool %s: %w", tool.Name, err)
	}
	registered.entry = entry
	return registered, nil
}

// describe adds what a tool says for those who look for it.
func (r *Registered) describe(entry *events.ToolEntry) error {
	entry.Namespace, entry.Aliases = r.Namespace, r.Aliases
	if r.Output != nil {
		if _, err := schema.Compile("output", r.Output); err != nil {
			return err
		}
		text, err := json.Marshal(r.Output)
		if err != nil {
			return fmt.Errorf("output: %w", err)
		}
		entry.Output = text
	}
	for i, example := range r.Examples {
		if !json.Valid(example) {
			return fmt.Errorf("examples[%d]: is no JSON", i)
		}
		if _, err := r.Check(example); err != nil {
			return fmt.Errorf("examples[%d]: %w", i, err)
		}
		entry.Examples = append(entry.Examples, example)
	}
	return nil
}

// checkEntry finds what no catalogue could hold.
func checkEntry(entry events.ToolEntry) error {
	return (&events.ToolStateApplied{Tools: []events.ToolEntry{entry}}).Validate()
}

func (t *Tools) put(tool *Registered) error {
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

// Entries is the catalogue as it is recorded, sorted by name. The caller must not change it.
func (t *Tools) Entries() []events.ToolEntry { return t.entries }

// Find looks a tool up.
func (t *Tools) Find(name string) (*Registered, bool) {
	r, ok := t.byName[name]
	return r, ok
}

// Codes of failures that the dispatch itself reports.
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
)

// Check validates arguments. What is no JSON counts as {} (host specification
// 3.4), so that the schema's complaint reaches the model.
func (r *Registered) Check(args []byte) (json.RawMessage, error) {
	if err := events.CheckJSON("arguments", args); err != nil {
		return nil, &Failure{Class: ClassInvalidRequest, Code: CodeInvalidArgs, Message: err.Error()}
	}
	var value any
	if err := json.Unmarshal(args, &value); err != nil {
		args, value = []byte("{}"), map[string]any{}
	}
	if err := r.schema.Validate(value); err != nil {
		return nil, &Failure{Class: ClassInvalidRequest, Code: CodeInvalidArgs, Message: err.Error()}
	}
	return args, nil
}
