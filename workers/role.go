package workers

import (
	"slices"

	"github.com/lash-go/lash/bus"
)

// Role is a part of the work that a node does for the sessions of its bus.
type Role string

// Values of [Role].
const (
	RoleTurn      Role = "turn"      // runs turns: calls models and hooks; sweeps for turns that no worker runs
	RoleTool      Role = "tool"      // runs portable tool calls of all nodes. Without it, other nodes run those of this node's turns
	RoleTask      Role = "task"      // runs background tasks and monitors
	RoleProjector Role = "projector" // keeps the directory and snapshots up to date
	RoleArchive   Role = "archive"   // makes idle sessions cold, and erases those past their retention
	RoleAPI       Role = "api"       // serves the session API
)

// Roles are all roles.
func Roles() []Role {
	return []Role{RoleTurn, RoleTool, RoleTask, RoleProjector, RoleArchive, RoleAPI}
}

// taskClasses are the queue classes from which the node takes tasks.
func (c *Config) taskClasses() []bus.Class {
	list := []bus.Class{}
	if slices.Contains(c.Roles, RoleTask) {
		list = append(list, bus.ClassTask)
	}
	if slices.Contains(c.Roles, RoleTool) {
		list = append(list, bus.ClassTool)
	}
	return list
}
