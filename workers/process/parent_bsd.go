//go:build unix && !linux

package process

import "syscall"

// dieWithParent has no means here: the guard alone kills the command.
func dieWithParent(*syscall.SysProcAttr) {}
