package subagent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/session/api"
)

// Capability is a kind of agent.
type Capability struct {
	Name        string
	Description string                   // for the model
	Shape       func(*api.CreateRequest) // sets the fields of the child's session; nil changes none
}

// Explore is an agent that starts with its task alone.
func Explore() Capability {
	return Capability{Name: "explore", Description: "knows nothing but its task"}
}

// Peer is an agent with the parent's tools, and with its plugins in their current state.
func Peer() Capability {
	return Capability{Name: "peer", Description: "has your own tools, settings and plans", Shape: func(req *api.CreateRequest) {
		req.Plugins = api.PluginsFork
	}}
}

func find(list []Capability, name string) int {
	return slices.IndexFunc(list, func(c Capability) bool { return c.Name == name })
}

// describe lists the capabilities for the model.
func describe(list []Capability) string {
	var b strings.Builder
	b.WriteString("Gives a task to an agent of its own, which sees nothing of this conversation, and waits for its answer. Capabilities:")
	for _, c := range list {
		fmt.Fprintf(&b, " %s (%s);", c.Name, c.Description)
	}
	return strings.TrimSuffix(b.String(), ";") + "."
}
