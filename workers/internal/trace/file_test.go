package trace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

func custom(name string) api.TraceRecord {
	return api.TraceRecord{Schema: api.TraceSchema, ID: name, At: 1, Event: api.TraceEvent{Type: api.TraceCustom, Name: name}}
}

// sink is a writer whose Write is a function of the test. Its writes do not overlap.
type sink struct {
	write func([]byte) (int, error)
}

func (s sink) Write(p []byte) (int, error) { return s.write(p) }

// namesOf are the names in a trace's lines, all of which must be whole or empty.
func namesOf(t *testing.T, data string) []string {
	t.Helper()
	var list []string
	for line := range strings.Lines(data) {
		if line == "\n" {
			continue
		}
		var r api.TraceRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil || !strings.HasSuffix(line, "\n") {
			t.Errorf("line %q: got %v, want a whole record", line, err)
		}
		list = append(list, r.Event.Name)
	}
	return list
}

// TestFile appends from several files to one path, like several processes, after a line that was cut off.
func TestFile(t *testing.T) {
	t.Parallel()
	const each = 500
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	runtest.NoError(t, os.WriteFile(path, []byte(`{"cut`), 0o600))
	var all sync.WaitGroup
	first, err := OpenFile(path, nil)
	runtest.NoError(t, err)
	first.Trace(custom("first"))
	runtest.NoError(t, first.Close(t.Context()))
	for i := range 3 {
		f, err := OpenFile(path, nil)
		runtest.NoError(t, err)
		all.Go(func() {
			for n := range each {
				f.Trace(custom(fmt.Sprintf("%d-%d", i, n)))
			}
			if err := f.Close(t.Context()); err != nil || f.Lost() != 0 {
				t.Errorf("close: got %v and %d lost, want none", err, f.Lost())
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(path)
	runtest.NoError(t, err)
	cut, rest, _ := strings.Cut(string(data), "\n")
	if cut != `{"cut` {
		t.Errorf("first line: got %q, want the one that was cut off", cut)
	}
	got := namesOf(t, rest)
	if len(got) != 1+3*each {
		t.Fatalf("lines: got %d, want %d", len(got), 1+3*each)
	}
	next := make(map[string]int)
	for _, name := range got[1:] {
		writer, n, _ := strings.Cut(name, "-")
		if n != fmt.Sprint(next[writer]) {
			t.Fatalf("line %s: got it, want %s-%d", name, writer, next[writer])
		}
		next[writer]++
	}
}

// TestFileFull has a writer that hangs: Trace does not block, and drops the lines that do not fit.
func TestFileFull(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	release := make(chan struct{})
	var written strings.Builder
	f := NewFile(sink{func(p []byte) (int, error) {
		<-release
		return written.Write(p)
	}}, zap.New(core))
	const more = 100
	for n := range 2*maxLines + more {
		f.Trace(custom(fmt.Sprint(n)))
	}
	lost := f.Lost()
	if lost < more {
		t.Errorf("lost: got %d, want at least %d", lost, more)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	runtest.WantError(t, "close while it hangs", f.Close(ended), context.Canceled)
	close(release)
	<-f.done
	if got := len(namesOf(t, written.String())); int64(got)+lost != 2*maxLines+more {
		t.Errorf("lines: got %d written and %d lost, want %d in all", got, lost, 2*maxLines+more)
	}
	f.Trace(custom("late"))
	if logged.FilterMessage("trace lines are lost").Len() != 1 {
		t.Errorf("warnings: got %v, want one", logged.All())
	}
}

// TestFileBytes drops lines that are too long, and lines that are too many bytes together.
func TestFileBytes(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var written strings.Builder
	f := NewFile(sink{func(p []byte) (int, error) {
		<-release
		return written.Write(p)
	}}, nil)
	f.Trace(custom(strings.Repeat("x", maxLine)))
	runtest.Equal(t, "lost of a line that is too long", f.Lost(), 1)
	const size = maxLine / 2
	for range 2 * maxBytes / size {
		f.Trace(custom(strings.Repeat("x", size)))
	}
	close(release)
	runtest.NoError(t, f.Close(t.Context()))
	if got := written.Len(); got > maxBytes+maxLine {
		t.Errorf("written: got %d bytes, want at most %d", got, maxBytes+maxLine)
	}
	runtest.Equal(t, "written and lost", len(namesOf(t, written.String()))+int(f.Lost()), 1+2*maxBytes/size)
}

// TestFileFails has a writer that fails within a line, and recovers.
func TestFileFails(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.WarnLevel)
	full := errors.New("disk is full")
	wrote := make(chan struct{})
	var written strings.Builder
	script := []func([]byte) (int, error){
		func(p []byte) (int, error) { n, _ := written.Write(p[:5]); return n, full },
		func([]byte) (int, error) { return 0, full },
	}
	f := NewFile(sink{func(p []byte) (int, error) {
		defer func() { wrote <- struct{}{} }()
		if len(script) == 0 {
			return written.Write(p)
		}
		next := script[0]
		script = script[1:]
		return next(p)
	}}, zap.New(core))
	for _, name := range []string{"torn", "gone", "whole"} {
		f.Trace(custom(name))
		<-wrote
	}
	runtest.NoError(t, f.Close(t.Context()))
	torn, rest, _ := strings.Cut(written.String(), "\n")
	runtest.Equal(t, "torn line", len(torn), 5)
	if got := namesOf(t, rest); len(got) != 1 || got[0] != "whole" {
		t.Errorf("lines: got %v, want the whole one", got)
	}
	if f.Lost() != 2 || logged.FilterMessage("trace has ended").Len() != 1 {
		t.Errorf("lost: got %d and %v, want 2 and a warning", f.Lost(), logged.All())
	}
}
