package program

import "golang.org/x/sys/unix"

// hide keeps the environment and the memory of this process, where keys are,
// from other processes of its user: commands of models are such. The kernel gives
// both to root alone, and writes no core dump. What this process starts is not hidden.
func hide() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }
