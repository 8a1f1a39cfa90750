package sandbox

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// executable is this program, also after its file was replaced.
func executable() (string, error) { return "/proc/self/exe", nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// wall limits the memory that the process can get from the system: what it has, and room for a program, its garbage and
// the copy that one step makes.
func wall(limit int64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages [6]uint64
	if _, err := fmt.Sscan(string(statm), &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5]); err != nil {
		return err
	}
	var own unix.Rlimit // of the node, which it cannot raise
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &own); err != nil {
		return err
	}
	most := min(own.Max, pages[5]*uint64(os.Getpagesize())+3*uint64(limit)+64<<20)
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
}
