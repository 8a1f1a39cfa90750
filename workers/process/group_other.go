//go:build !unix

package process

import (
	"errors"
	"os/exec"
)

// ownGroup refuses: without process groups a command could not be killed with what it starts.
func ownGroup(_, _ *exec.Cmd) error {
	return errors.New("commands need process groups, which this system has none of")
}

func termGroup(int) {}
func killGroup(int) {}
