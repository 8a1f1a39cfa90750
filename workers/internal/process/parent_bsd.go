//go:build unix && !linux

package process

import "syscall"

// dieWithParent does nothing on this system: the guard alone kills the command.
func dieWithParent(*syscall.SysProcAttr) {}
