package process

import "syscall"

// dieWithParent has the kernel kill the command with this process, for the
// moment before the guard knows of it. What the command starts is the guard's.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
