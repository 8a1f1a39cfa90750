// Package places adds an operation, an event kind, a hook, a tool, a provider and a command to the module, and counts
// the places that each of them touches.
package places
