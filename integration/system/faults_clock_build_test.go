package system

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// clockFile is the variable that names the file of a process's clock: see testdata/clock.
const clockFile = "LASH_CLOCK"

// clock is the wall clock of processes that [buildClocked] built. Their monotonic clock, which measures durations
// and timeouts, is unchanged, as on a machine whose clock is set.
type clock struct {
	t    *testing.T
	file *os.File
}

// newClock is a clock with the right time.
func newClock(t *testing.T) *clock {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "clock")
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	c := &clock{t: t, file: file}
	c.set(0)
	return c
}

// set makes the clock jump to that many seconds ahead of the right time.
func (c *clock) set(ahead time.Duration) {
	c.t.Helper()
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)) //nolint:gosec // two's complement
	_, err := c.file.WriteAt(seconds, 0)
	runtest.NoError(c.t, err)
}

func (c *clock) env() string { return clockFile + "=" + c.file.Name() }

// clockedFiles are the files that make up the program: the tests that run as a server and as a node, and what they
// use.
var clockedFiles = []string{
	"main_test.go", "faults_cluster_process_test.go", "faults_clock_process_test.go", "faults_kill_work_test.go",
}

// buildClocked builds that program with a [time.Now] that is ahead by the value of a [clock]. Programs read the
// time without a system call, so that it cannot be changed from outside.
func buildClocked(t *testing.T) (program string) {
	t.Helper()
	out, err := harness.Go(t.Context(), "env", "GOROOT").Output()
	runtest.NoError(t, err)
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	runtest.NoError(t, err)
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatalf("time.go of %s reads the clock in another way than in\n%s", runtime.Version(), reads)
	}
	added, err := filepath.Abs(filepath.Join("testdata", "clock", "ahead.go"))
	runtest.NoError(t, err)
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "clocked.test")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"):  changed,
		filepath.Join(source, "ahead.go"): added,
	}})
	runtest.NoError(t, err)
	for path, data := range map[string][]byte{
		changed: []byte(strings.Replace(string(text), reads, reads+"\tsec += lashAhead()\n", 1)),
		overlay: replace,
	} {
		runtest.NoError(t, os.WriteFile(path, data, 0o600))
	}
	args := append([]string{"test", "-c", "-overlay", overlay, "-ldflags=-s -w", "-o", program}, clockedFiles...)
	if out, err := harness.Go(t.Context(), args...).CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}
