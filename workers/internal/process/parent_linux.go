package process

import "syscall"

// dieWithParent makes the kernel kill the command with this process, until the guard knows the command. The guard
// kills the processes that the command starts.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
