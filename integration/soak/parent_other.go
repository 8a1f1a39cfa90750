//go:build !linux

package main

import "os/exec"

// dieWithParent does nothing on this system: the child ends when its input ends.
func dieWithParent(*exec.Cmd) {}
