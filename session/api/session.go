package api

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// CreateRequest opens a session.
type CreateRequest struct {
	ID     events.SessionID  `msgpack:"i,omitempty"` // Defaults to a new one
	Config events.Config     `msgpack:"c,omitempty"`
	Parent events.SessionID  `msgpack:"p,omitempty"`
	Labels map[string]string `msgpack:"l,omitempty"`
	Nodes  []AppendNode      `msgpack:"n,omitempty"` // initial nodes, after those of Start

	Start    Start             `msgpack:"s,omitempty"`
	From     events.SessionID  `msgpack:"f,omitempty"` // of StartExisting
	At       events.Seq        `msgpack:"q,omitempty"` // of StartExisting: the sequence of the state that is copied; 0 means the end
	Snapshot *projector.State  `msgpack:"-"`           // of StartSnapshot, see [CreateRequest.CheckSnapshot]. The bodies that [projector.State.Snapshot] returned must be stored
	PathOnly bool              `msgpack:"h,omitempty"` // only the nodes of the active path, as a fork has
	Relation events.Relation   `msgpack:"r,omitempty"` // Defaults to child where there is a parent
	Plugins  PluginSource      `msgpack:"g,omitempty"`
	Options  map[string]string `msgpack:"o,omitempty"` // JSON for plugins, by plugin id
	First    *events.Message   `msgpack:"m,omitempty"` // input of the first turn, see TakeFirstTurnInput
	Access   events.ToolAccess `msgpack:"a,omitempty"` // in addition to the parent's restrictions
	Subagent events.Subagent   `msgpack:"b,omitempty"`
	Usage    string            `msgpack:"u,omitempty"` // the ledger's source in the parent. Defaults to "child"
	Overlay  Overlay           `msgpack:"v,omitempty"` // Defaults to that of what the session copies
}

// Overlay is what a new session has over the tools and the prompt of its plugins, from its first turn on.
type Overlay struct {
	Tools         []OverlayTool         `msgpack:"t,omitempty"` // they replace the session's own tools of the same names
	Contributions []events.Contribution `msgpack:"c,omitempty"` // to the prompt of every turn
	WithoutBase   bool                  `msgpack:"w,omitempty"` // the session's own tools are not offered
}

// OverlayTool names a tool that a plugin of the nodes reserves for overlays.
type OverlayTool struct {
	Source string `msgpack:"s,omitempty" json:"source,omitempty"`
	Name   string `msgpack:"n" json:"name"`
}

// IsZero reports whether the overlay is empty.
func (o Overlay) IsZero() bool {
	return len(o.Tools) == 0 && len(o.Contributions) == 0 && !o.WithoutBase
}

// CheckSnapshot refuses a snapshot that cannot be sent to a host, such as a state of [Service.StateAt]. A request with
// [StartExisting], From and At makes the same copy. Errors: an [*events.FieldError].
func (r *CreateRequest) CheckSnapshot() error {
	s := r.Snapshot
	if r.Start != StartSnapshot || s == nil || s.HasSnapshot() {
		return nil
	}
	return &events.FieldError{Field: "snapshot", Err: events.ErrInvalid, Reason: fmt.Sprintf(
		"is a state for reading, as of StateAt: start %q from %s at %d makes the same copy", StartExisting, s.Session, s.Seq)}
}

// Start is the initial content of a session.
type Start string

// The starts. The copy has all branches, frames, protocol options, the execution state, plugin states, tool sources,
// overlay, extensions and tool state of the base. Its ledger and counters start at zero. A copy of an earlier state has the
// configuration, plugin states and tools of now, unless the caller may configure the source.
const (
	StartEmpty    Start = ""
	StartCurrent  Start = "current_session"  // the creator's history
	StartExisting Start = "existing_session" // another session's
	StartSnapshot Start = "snapshot"         // a state in the request
)

// PluginSource is the source of the initial plugin states of a session.
type PluginSource string

// Values of [PluginSource].
const (
	PluginsFresh PluginSource = ""                     // none, or those of the copied conversation
	PluginsFork  PluginSource = "current_session_fork" // the creator's, and its tool catalogue; a copy has those of its source
)

// Handle is a session that was created.
type Handle struct {
	Session events.SessionID
	Parent  events.SessionID // empty: root
	Config  events.Config
}

// CompactionFrame is the reason of a frame that a compactor opened.
const CompactionFrame = "compaction"

// ConfigureRequest changes the configuration.
type ConfigureRequest struct {
	Change         func(events.Config) events.Config // receives the current one
	IdempotencyKey string                            // the key of this request, instead of [RequestMeta.Key]: a repeat does nothing
}

// GrantRequest sets the rights of a caller in a session of another owner. It replaces the caller's earlier grant.
type GrantRequest struct {
	To     string                `msgpack:"t" json:"-" path:"caller"` // the caller's name: 1 to 64 of A-Z a-z 0-9 _ -
	Rights []events.SessionRight `msgpack:"r,omitempty" json:"rights" jsonschema:"any of read, write and approve; an empty list revokes all" required:"is required: an empty list takes back what was granted"`
}

// FrameRequest opens a frame.
type FrameRequest struct {
	Frame  events.FrameID `msgpack:"f,omitempty"`
	Reason string         `msgpack:"r,omitempty"`
	Keep   events.NodeID  `msgpack:"k,omitempty"` // nodes of the active path from this one on stay visible
	Nodes  []AppendNode   `msgpack:"n,omitempty"`
}
