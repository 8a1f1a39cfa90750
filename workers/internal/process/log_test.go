package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"pgregory.net/rapid"
)

// TestLogLinesAreBounded floods standard error with lines of any number and length: at most a number of them are in the log, none
// is longer than its limit, and the log says how many are missing.
func TestLogLinesAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 500), rapid.SampledFrom([]int{199, 200, 201, 20000})).Draw(t, "lines")
		long := rapid.SampledFrom([]int{0, 1, maxLine - 1, maxLine, maxLine + 1, 5 * maxLine}).Draw(t, "bytes")
		if n > 500 {
			long = min(long, 1)
		}
		line := strings.Repeat(rapid.SampledFrom([]string{"x", "\x1b", "\xff", "\x00"}).Draw(t, "byte"), long)
		core, logs := observer.New(zap.DebugLevel)
		began := time.Now()
		LogLines(zap.New(core), strings.NewReader(strings.Repeat(line+"\n", n)), nil)
		most := LinesAtOnce + int(time.Since(began).Seconds()*LinesPerSecond) + 1
		logged, dropped := 0, 0
		for _, e := range logs.All() {
			fields := e.ContextMap()
			if text, ok := fields["line"].(string); ok {
				logged++
				if len(text) > 3*maxLine { // a byte that is no UTF-8 becomes three
					t.Fatalf("a line of %d bytes", len(text))
				}
			}
			if more, ok := fields["dropped"].(int64); ok {
				dropped += int(more)
			}
		}
		if logged > most || logged+dropped != n {
			t.Fatalf("of %d lines: got %d in the log and %d missing, want at most %d and all counted", n, logged, dropped, most)
		}
	})
}

// TestLogLinesAreChanged logs lines as shown says.
func TestLogLinesAreChanged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	LogLines(zap.New(core), io.MultiReader(strings.NewReader("a key\nno"), strings.NewReader("ne")), func(line string) string { return strings.ReplaceAll(line, "key", "***") })
	var got []string
	for _, e := range logs.All() {
		got = append(got, fmt.Sprint(e.ContextMap()["line"]))
	}
	if strings.Join(got, "|") != "a ***|none" {
		t.Errorf("got %q", got)
	}
}
