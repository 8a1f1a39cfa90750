package program

import "golang.org/x/sys/unix"

// hide protects the environment and the memory of this process, which contain keys, from other processes of its user,
// for example commands of models. Only root can read them, and the kernel writes no core dump. Child processes are not
// protected.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
