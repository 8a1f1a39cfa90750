// Package toolset computes the tools that a session has after a change of its tool sources or of their levels.
package toolset
