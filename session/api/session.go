package api

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// CreateRequest opens a session.
type CreateRequest struct {
	ID     events.SessionID // Defaults to a new one
	Config events.Config
	Parent events.SessionID
	Labels map[string]string
	Nodes  []AppendNode // initial nodes, after what Start brings

	Start    Start
	From     events.SessionID // of StartExisting
	Snapshot *projector.State // of StartSnapshot
	Relation events.Relation  // Defaults to child where there is a parent
	Plugins  PluginSource
	Options  map[string]string // JSON for plugins, by plugin id
	First    *events.Message   // input of the first turn, for whoever takes it
	Access   events.ToolAccess // besides what is hidden from the parent
	Subagent events.Subagent
	Usage    string // the ledger's source in the parent. Defaults to "child"
}

// Start says what a session begins with.
type Start string

// The starts. The base is copied with its graph; its ledger and counters begin anew.
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
	IdempotencyKey string                            // a retry of the newest change does nothing
}

// FrameRequest opens a frame.
type FrameRequest struct {
	Frame  events.FrameID
	Reason string
	Keep   events.NodeID // nodes of the active path from here on stay visible
	Nodes  []AppendNode
}
