package soak

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the child with this process. A group of
// its own keeps a terminal's ctrl-c from it: the parent ends it, in order.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
