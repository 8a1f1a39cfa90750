package stdio_test

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/workers/external/stdio"
	"github.com/lash-go/lash/workers/internal/process"
)

// TestStderrFloods runs programs that flood their standard error with short lines, long ones, and one without an end. The program
// registers, the log has a bounded number of lines, and it says how many are missing.
func TestStderrFloods(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flood string
		lines int
	}{
		"short":  {`yes flood | head -n 100000 >&2`, 100000},
		"empty":  {`yes "" | head -n 100000 >&2`, 100000},
		"long":   {`yes "$(head -c 20000 /dev/zero | tr '\0' x)" | head -n 2000 >&2`, 2000},
		"no_end": {`head -c 10000000 /dev/zero >&2`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zap.DebugLevel)
			began := time.Now()
			script := c.flood + `; echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[]}}'; while read -r line; do :; done`
			a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}, RegisterWait: time.Minute, Logger: zap.New(core)})
			if err != nil {
				t.Fatal(err)
			}
			a.Close()
			count := func() (logged, dropped int) {
				for _, e := range logs.FilterMessage("stderr").All() {
					fields := e.ContextMap()
					if _, ok := fields["line"]; ok {
						logged++
					}
					n, _ := fields["dropped"].(int64)
					dropped += int(n)
				}
				return logged, dropped
			}
			bustest.Eventually(t, "all lines are counted", func() bool {
				logged, dropped := count()
				return logged+dropped == c.lines
			})
			most := process.LinesAtOnce + int(time.Since(began).Seconds()*process.LinesPerSecond) + 1
			if logged, _ := count(); logged > most {
				t.Errorf("got %d lines in the log, want at most %d", logged, most)
			}
		})
	}
}
