package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child with this process. The child has its own process group, so a
// terminal's ctrl-c does not reach it: the parent stops it in order.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
