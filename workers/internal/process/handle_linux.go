package process

import (
	"fmt"
	"os"
)

// handlePath is a path that leads a child process to an open directory, wherever its name leads by now.
func handlePath(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }
