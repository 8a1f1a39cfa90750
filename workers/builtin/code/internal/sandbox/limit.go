package sandbox

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lash-go/lash/session/memory"
)

// Limits of one run. Zero fields have their defaults.
type Limits struct {
	Steps       uint64        // of the interpreter. Defaults to 5 million
	MemoryBytes int64         // of what the program has at once. Defaults to 128 MiB
	Code        int64         // bytes of the code. Defaults to 64 KiB
	Output      int64         // bytes of the printed text in the response. Defaults to 16 KiB
	Timeout     time.Duration // of the program, without the time of tools. Defaults to 10 s
	Calls       int           // of tools, started ones included. Defaults to 100
	StateBytes  int64         // bytes of the encoded variables. Defaults to 1 MiB
	Memory      *memory.Pool  `json:"-"` // of all programs that compute, each with MemoryBytes of it, and at most a share. Defaults to no limit
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Steps:       cmp.Or(l.Steps, 5_000_000),
		MemoryBytes: min(cmp.Or(max(l.MemoryBytes, 0), 128<<20), l.Memory.Share()),
		Code:        cmp.Or(max(l.Code, 0), 64<<10),
		Output:      cmp.Or(max(l.Output, 0), 16<<10),
		Timeout:     cmp.Or(max(l.Timeout, 0), 10*time.Second),
		Calls:       cmp.Or(max(l.Calls, 0), 100),
		StateBytes:  cmp.Or(max(l.StateBytes, 0), 1<<20),
		Memory:      l.Memory,
	}
}

// Fixed limits.
const (
	maxSent      = 16 << 20 // bytes of a value for a tool or the turn
	maxNesting   = 100      // levels of a value that is sent or saved
	maxVariables = 1000     // kept between runs
	maxTask      = 16_000   // bytes of the task of continue_as
	maxWaits     = 1000     // for handles, in one program
	maxMessages  = 200      // of one program
	maxShown     = 16       // attachments of one program
)

func (l Limits) tooLong() string {
	return fmt.Sprintf("the program ran longer than %s; the variables are as before it; do less in one program", l.Timeout)
}

// memoryWait is how long a program waits for memory beside others before it begins.
const memoryWait = 10 * time.Second

func (l Limits) noMemory() string {
	return fmt.Sprintf("the node has no memory for a program now (%d bytes): other programs have it; run it again later", l.MemoryBytes)
}

func (l Limits) tooLarge() string {
	return fmt.Sprintf("the program went beyond its memory limit (%d bytes); the variables are as before it; keep less at once", l.MemoryBytes)
}

func (l Limits) tooMuch() string {
	return fmt.Sprintf("the program did too much work (limit %d steps); do less in one program, or look at less data", l.Steps)
}
