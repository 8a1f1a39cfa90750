//go:build unix

package process

import (
	"os/exec"
	"syscall"
)

// ownGroup gives each command a process group of its own, so that it can be killed with all that it starts.
func ownGroup(command, guard *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(command.SysProcAttr)
	return nil
}

func termGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
