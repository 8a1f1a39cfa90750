package program

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

	"github.com/charmbracelet/x/term"
	"golang.org/x/sys/unix"
)

// mustWaitForOrphans reports whether the kernel gives processes whose parents have ended to this one: it is process 1, as in a
// container without an init, or the program that started it made it a subreaper.
func mustWaitForOrphans() bool {
	reaper := 0
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&reaper)), 0, 0, 0) //nolint:gosec // the kernel writes there
	return os.Getpid() == 1 || err == nil && reaper != 0
}

// waitForOrphans runs a program as a child, passes signals on to it, waits for every process that ends meanwhile, and returns the
// program's exit code. The program itself cannot do that: it would take the ends of its own commands from those that wait for them.
func waitForOrphans(name string, args []string) (code int, err error) {
	runtime.LockOSThread() // the child dies with the thread that started it
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	defer signal.Stop(signals)
	attr := &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}}
	if term.IsTerminal(os.Stdin.Fd()) {
		attr.Sys.Foreground = true // it alone receives what is typed, and the signals of keys
	}
	p, err := os.StartProcess(name, args, attr)
	if err != nil {
		return Failed, fmt.Errorf("start %s as a child of process %d: %w", name, os.Getpid(), err)
	}
	for s := range signals {
		switch s {
		case syscall.SIGCHLD:
			if code, ended := reap(p.Pid); ended {
				return code, nil
			}
		case syscall.SIGURG, syscall.SIGTTOU, syscall.SIGTTIN: // of the Go runtime, and of a process in the background of its terminal
		default:
			_ = p.Signal(s) // it may have ended
		}
	}
	return Failed, nil // not reached: the channel stays open
}

// reap waits for all processes that have ended. It returns the exit code of one of them, as a shell does.
func reap(of int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid <= 0:
			return code, ended
		case pid != of:
		case status.Signaled():
			code, ended = 128+int(status.Signal()), true
		default:
			code, ended = status.ExitStatus(), true
		}
	}
}
