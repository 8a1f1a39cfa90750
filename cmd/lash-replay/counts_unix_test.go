//go:build linux

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/internal/runtest"
)

// awaited is a writer that tells when a text was written to it.
type awaited struct {
	mu   sync.Mutex
	all  strings.Builder
	text string
	seen chan struct{}
}

func (w *awaited) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	had := strings.Contains(w.all.String(), w.text)
	w.all.Write(p)
	if !had && strings.Contains(w.all.String(), w.text) {
		close(w.seen)
	}
	return len(p), nil
}

// leased holds a lease on a file: a program that opens it waits until the lease is returned, or for 45 s.
func leased(t *testing.T, path string) (end func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	runtest.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("no leases on files: %v", err)
	}
	return func() {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		runtest.WantError(t, "fcntl int", err, nil)
	}
}

// TestCountsOnTerminal has check and stats read archives of which the second one is leased, until the command has said how many are done. It says so on a terminal only, and not with --json.
func TestCountsOnTerminal(t *testing.T) {
	t.Parallel()
	const whole = "testdata/archives/answered.lash"
	data, err := os.ReadFile(whole)
	runtest.NoError(t, err)
	for _, tt := range []struct {
		command, want string
		more          []string
		screen        bool
	}{
		{"check", "lash-replay: checked 1 of 3 archives\n", nil, true},
		{"stats", "lash-replay: read 1 of 3 archives\n", nil, true},
		{"check", "", nil, false},
		{"stats", "", []string{"--json"}, true},
	} {
		t.Run(strings.Join(append([]string{tt.command}, tt.more...), "_"), func(t *testing.T) {
			t.Parallel()
			slow := filepath.Join(t.TempDir(), "slow.lash")
			runtest.NoError(t, os.WriteFile(slow, data, 0o600))
			open := leased(t, slow)
			errs := &awaited{text: tt.want, seen: make(chan struct{})}
			if tt.want == "" {
				errs.text = "waiting for " + slow + " to be read\n" // which has the same patience
			}
			s := &program.Streams{Out: io.Discard, Err: errs, Env: func(string) string { return "" }}
			if tt.screen {
				if s.Screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
					t.Fatalf("no terminal: %v", err)
				}
				defer func() { _ = s.Screen.Close() }()
			}
			ended := make(chan int, 1)
			go func() { ended <- run(t.Context(), append([]string{tt.command, whole, slow, whole}, tt.more...), s) }()
			select {
			case <-errs.seen:
			case code := <-ended:
				t.Fatalf("got exit code %d before the output %q: %s", code, errs.text, errs.all.String())
			}
			open()
			if code := <-ended; code != 0 {
				t.Errorf("got exit code %d: %s", code, errs.all.String())
			}
			if got := strings.Count(errs.all.String(), " of 3 archives"); got > 0 != (tt.want != "") {
				t.Errorf("got %q, want counts: %t", errs.all.String(), tt.want != "")
			}
		})
	}
}
