package program

import (
	"math"

	"golang.org/x/sys/unix"
)

// maxDescriptors is the number of descriptors that are marked where the kernel cannot mark all.
const maxDescriptors = 1024

// hide protects the environment and the memory of this process, which contain keys, from other processes of its user,
// for example commands of models. Only root can read them, and the kernel writes no core dump. Child processes are not
// protected. Files that this process was started with, besides its standard streams, are not open in child processes.
func hide() error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil { // before Linux 5.11
		for fd := 3; fd < maxDescriptors; fd++ {
			unix.CloseOnExec(fd)
		}
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
