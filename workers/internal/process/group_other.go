//go:build !unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup fails: without process groups the processes that a command starts could not be killed.
func ownGroup(_, _ *exec.Cmd) error {
	return errors.New("commands need process groups, which this system has none of")
}

func termGroup(int) {}
func killGroup(int) {}

func hasUnread(*os.File) bool { return false }

func signalText(s syscall.Signal) string { return s.String() }
