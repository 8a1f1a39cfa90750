// Package tool is a tool: a Go function that the model can call.
package tool

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// Weather adds the tool "weather".
func Weather() plugin.Factory {
	return plugin.OfTool(plugin.Tool{
		Name: "weather", Description: "Tells the weather of a city.",
		Effects: events.EffectsNone, // may run again after a crash; without it, a call runs at most once
	}, weather)
}

// place is the input of the tool. The tool's schema is derived from this type.
type place struct {
	City string `json:"city" jsonschema:"in English"`
}

// weather returns the result for the model. The model reads an error too.
func weather(_ context.Context, _ plugin.Call, at place) (string, error) {
	if at.City == "Atlantis" {
		return "", fmt.Errorf("there is no station in %s", at.City)
	}
	return "rain, 8 degrees", nil
}
