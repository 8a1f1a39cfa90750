//go:build !linux

package program

// hide has no means here: commands of models have the rights of the node's user.
func hide() error { return nil }
