package mcp

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// answering answers every request with a stream.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// TestAnswersShareThePace reads two answers of one server over HTTP: the second waits for the limit that the first used.
func TestAnswersShareThePace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newWeb(newTestRun(t))
		h.base = answering(strings.Repeat("\n", linesAtOnce))
		for _, want := range []time.Duration{0, linesAtOnce / linesWhileIdle * time.Second} {
			began := time.Now()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "", http.NoBody)
			runtest.NoError(t, err)
			answer, err := h.RoundTrip(r)
			runtest.NoError(t, err)
			_, err = io.Copy(io.Discard, answer.Body)
			runtest.NoError(t, err)
			_ = answer.Body.Close()
			if took := time.Since(began); took < want || took > want+time.Second {
				t.Errorf("took %v, want %v", took, want)
			}
		}
	})
}

// TestServerIsReadSlowly reads a server that sends without end. While no call runs it is read at 100 lines a second after the first
// 4 000, while one runs at 2 000, and a call that starts waits for 20 lines at most. A list is read as
// fast as while a call runs, for ten seconds. Long lines have limits of their own.
func TestServerIsReadSlowly(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		line  int // bytes
		lines int
		busy  time.Duration // when a call starts; 0: before
		idle  bool          // none starts
		list  bool          // the client has asked for a list
		want  time.Duration
	}{
		"first":         {1, 4000, 0, true, false, 0},
		"idle":          {1, 5000, 0, true, false, 10 * time.Second},
		"busy":          {1, 6000, 0, false, false, time.Second},
		"call_starts":   {1, 8000, 10 * time.Second, false, false, 10*time.Second + 1500*time.Millisecond},
		"list":          {1, 8000, 0, true, true, 2 * time.Second},
		"endless_list":  {1, 25000, 0, true, true, 20 * time.Second},
		"long":          {1 << 20, 64, 0, true, false, 0},
		"long_and_idle": {1 << 20, 72, 0, true, false, 2 * time.Second},
		"long_and_busy": {1 << 20, 128, 0, false, false, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var busy atomic.Bool
				if !tc.idle {
					time.AfterFunc(tc.busy, func() { busy.Store(true) })
					synctest.Wait()
				}
				p := newPace(busy.Load)
				if tc.list {
					defer p.list()()
				}
				began := time.Now()
				text := strings.Repeat(strings.Repeat("x", tc.line-1)+"\n", tc.lines)
				n, err := io.Copy(struct{ io.Writer }{io.Discard}, p.of(t.Context(), io.NopCloser(struct{ io.Reader }{strings.NewReader(text)})))
				if n != int64(len(text)) || err != nil {
					t.Fatalf("got %d bytes, %v, want %d", n, err, len(text))
				}
				if took := time.Since(began); took < tc.want-time.Millisecond || took > tc.want+300*time.Millisecond { // idleStep, and a read of 32 KiB
					t.Errorf("took %v, want %v", took, tc.want)
				}
			})
		})
	}
}
