package workers

import "slices"

// Role is something that a node does for the sessions of its bus.
type Role string

// The roles.
const (
	RoleTurn      Role = "turn"      // runs turns: asks models and hooks, and finds turns that nobody works on
	RoleTask      Role = "task"      // runs background tasks and monitors
	RoleProjector Role = "projector" // keeps the directory and snapshots up to date
	RoleArchive   Role = "archive"   // makes sessions cold that rest
	RoleAPI       Role = "api"       // serves the session API
)

// Roles lists all roles.
func Roles() []Role {
	return []Role{RoleTurn, RoleTask, RoleProjector, RoleArchive, RoleAPI}
}

// Has reports whether the node has a role.
func (n *Node) Has(role Role) bool { return slices.Contains(n.worker.cfg.Roles, role) }
