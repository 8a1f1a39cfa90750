package main

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestFallbackShown lists the events of a switch to another model.
func TestFallbackShown(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]events.Payload{
		"iteration 0, model m1, server, \"later\", goes on with fallback 2: m3 of backup": &events.ModelFailed{
			Error: "server", Model: "m1", Message: "later", Fallback: events.FallbackTo{Place: 2, Provider: "backup", Model: "m3"},
		},
		`model m1, fallbacks "m2, m3 of backup"`: &events.SessionConfigured{Config: events.Config{
			Model: "m1", Fallbacks: []events.Fallback{{Model: "m2"}, {Provider: "backup", Model: "m3"}},
		}},
	} {
		ev := events.Of("t1", p)
		if got := summary(&ev); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
