//go:build unix

package process

import (
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
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

func signalText(s syscall.Signal) string {
	return fmt.Sprintf("signal %d (%s, %v)", int(s), unix.SignalName(s), s)
}
