package harness

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// StartMonitorOf starts a monitor.
func (b *System) StartMonitorOf(id events.SessionID, spec events.MonitorSpec) {
	b.T.Helper()
	if err := b.StartMonitor(b.Ctx, id, spec); err != nil {
		b.T.Fatal(err)
	}
}

// MonitorRecord is the record of a monitor.
func (b *System) MonitorRecord(id events.SessionID, name events.MonitorID) projector.Monitor {
	b.T.Helper()
	m, ok := b.StateOf(id).Monitor(name)
	if !ok {
		b.T.Fatalf("monitor %s: got none", name)
	}
	return *m
}

// AwaitMonitor waits until a monitor is in a state.
func (b *System) AwaitMonitor(id events.SessionID, name events.MonitorID, state events.MonitorState) projector.Monitor {
	b.T.Helper()
	s := b.AwaitState(id, "monitor "+string(name)+" "+string(state), func(s *projector.State) bool {
		m, ok := s.Monitor(name)
		return ok && m.State == state && (state != events.MonitorIdle || !m.Armed)
	})
	m, _ := s.Monitor(name)
	return *m
}

// AwaitUpdates waits for update n of the monitors and takes all updates.
func (b *System) AwaitUpdates(id events.SessionID, n int64) []api.MonitorEvent {
	b.T.Helper()
	b.AwaitState(id, "updates", func(s *projector.State) bool { return s.Feed.Sequence >= n })
	u, err := b.TakeMonitorUpdates(b.Ctx, id)
	runtest.NoError(b.T, err)
	return u.Events
}

// Fifo is a named pipe. A read to its end waits until no process has it open for writing.
type Fifo string

// NewFifo makes a named pipe.
func NewFifo(t *testing.T) Fifo {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return Fifo(path)
}

// Opened returns two channels: up is closed when the first process has the pipe open for writing, gone when no
// process has.
func (f Fifo) Opened(t *testing.T) (up, ended <-chan struct{}) {
	t.Helper()
	here, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r, err := os.Open(string(f))
		close(here)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Close() //nolint:errcheck // it was only read
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
	}()
	return here, done
}

// Write writes a line, so that a command that reads the pipe continues, now or later. The pipe stays open: no line is
// lost between two readers.
func (f Fifo) Write(t *testing.T, line string) {
	t.Helper()
	w, err := os.OpenFile(string(f), os.O_RDWR, 0)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	if _, err := w.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

// Wait waits until a channel is closed.
func (b *System) Wait(what string, done <-chan struct{}) {
	b.T.Helper()
	select {
	case <-done:
	case <-b.Ctx.Done():
		b.T.Fatalf("%s: got nothing, want it to end", what)
	}
}

// KeepOpen is a command with a child; both have the pipe open.
func KeepOpen(f Fifo, before string) string {
	return before + "exec 3>'" + string(f) + "'; sleep 1000 & echo up; while :; do sleep 1000; done"
}
