package workers

import (
	"slices"

	"github.com/lash-go/lash/bus"
)

// Role is something that a node does for the sessions of its bus.
type Role string

// The roles.
const (
	RoleTurn      Role = "turn"      // runs turns: asks models and hooks, and finds turns that no node works on
	RoleTool      Role = "tool"      // runs tool calls: portable ones of any node's turns; without it, its own turns' are run elsewhere
	RoleTask      Role = "task"      // runs background tasks and monitors
	RoleProjector Role = "projector" // keeps the directory and snapshots up to date
	RoleArchive   Role = "archive"   // makes sessions cold that rest
	RoleAPI       Role = "api"       // serves the session API
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{RoleTurn, RoleTool, RoleTask, RoleProjector, RoleArchive, RoleAPI}
}

// taskClasses are the classes of the queue that the node's tasks are of.
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
