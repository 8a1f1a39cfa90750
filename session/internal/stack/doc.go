// Package stack keeps the plugins of the sessions that a process works on: it builds a session's plugins once, and updates
// them to the session's history.
package stack
