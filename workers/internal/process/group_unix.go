//go:build unix

package process

import (
	"fmt"
	"os"
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

// hasUnread reports whether something can be read from a pipe at once.
func hasUnread(pipe *os.File) bool {
	conn, err := pipe.SyscallConn()
	poll := []unix.PollFd{{Events: unix.POLLIN}}
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			poll[0].Fd = int32(fd)
			_, _ = unix.Poll(poll, 0) // failed: it has no event
		})
	}
	return err == nil && poll[0].Revents&unix.POLLIN != 0
}

func signalText(s syscall.Signal) string {
	return fmt.Sprintf("signal %d (%s, %v)", int(s), unix.SignalName(s), s)
}
