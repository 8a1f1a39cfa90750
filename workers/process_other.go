//go:build !unix

package workers

import (
	"errors"
	"os/exec"
)

// ownGroup refuses: without process groups a monitor's processes could not be killed.
func ownGroup(_, _ *exec.Cmd) error {
	return errors.New("monitors need process groups, which this system has none of")
}

func termGroup(int) {}
func killGroup(int) {}
