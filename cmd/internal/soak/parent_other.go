//go:build !linux

package soak

import "os/exec"

// dieWithParent does nothing on this system: the child ends when its input ends.
func dieWithParent(*exec.Cmd) {}
