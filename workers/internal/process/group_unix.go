//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup sets a process group for each command, so that it can be killed with all processes that it starts.
func ownGroup(command, guard *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
	return nil
}

func termGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
