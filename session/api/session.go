package api

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// CreateRequest opens a session.
type CreateRequest struct {
	ID     events.SessionID  `msgpack:"i,omitempty"` // Defaults to a new one
	Config events.Config     `msgpack:"c,omitempty"`
	Parent events.SessionID  `msgpack:"p,omitempty"`
	Labels map[string]string `msgpack:"l,omitempty"`
	Nodes  []AppendNode      `msgpack:"n,omitempty"` // initial nodes, after what Start brings

	Start    Start             `msgpack:"s,omitempty"`
	From     events.SessionID  `msgpack:"f,omitempty"` // of StartExisting
	Snapshot *projector.State  `msgpack:"-"`           // of StartSnapshot. What its Snapshot handed out must be stored
	PathOnly bool              `msgpack:"h,omitempty"` // of what Start brings, the nodes of the active path alone: as a fork does
	Relation events.Relation   `msgpack:"r,omitempty"` // Defaults to child where there is a parent
	Plugins  PluginSource      `msgpack:"g,omitempty"`
	Options  map[string]string `msgpack:"o,omitempty"` // JSON for plugins, by plugin id
	First    *events.Message   `msgpack:"m,omitempty"` // input of the first turn, for whoever takes it
	Access   events.ToolAccess `msgpack:"a,omitempty"` // besides what is hidden from the parent
	Subagent events.Subagent   `msgpack:"b,omitempty"`
	Usage    string            `msgpack:"u,omitempty"` // the ledger's source in the parent. Defaults to "child"
}

// Start says what a session begins with.
type Start string

// The starts. The base is copied whole, with other branches, frames, protocol options and execution state; its ledger
// and counters begin anew.
const (
	StartEmpty    Start = ""
	StartCurrent  Start = "current_session"  // the creator's history
	StartExisting Start = "existing_session" // another session's
	StartSnapshot Start = "snapshot"         // a state at hand
)

// PluginSource says with which state a session's plugins begin.
type PluginSource string

// The sources.
const (
	PluginsFresh PluginSource = ""                     // none
	PluginsFork  PluginSource = "current_session_fork" // the creator's, and its tool catalogue
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
	Change         func(events.Config) events.Config // gets the current one
	IdempotencyKey string                            // of this request, in place of the door's: a repeat does nothing, see [Asked]
}

// GrantRequest says what a caller may do in a session that is not its own. It
// replaces what was granted to that caller before.
type GrantRequest struct {
	To     string                `msgpack:"t"`           // the caller's name: 1 to 64 of A-Z a-z 0-9 _ -
	Rights []events.SessionRight `msgpack:"r,omitempty"` // of read, write and approve; none takes back what was granted
}

// FrameRequest opens a frame.
type FrameRequest struct {
	Frame  events.FrameID `msgpack:"f,omitempty"`
	Reason string         `msgpack:"r,omitempty"`
	Keep   events.NodeID  `msgpack:"k,omitempty"` // nodes of the active path from here on stay visible
	Nodes  []AppendNode   `msgpack:"n,omitempty"`
}
