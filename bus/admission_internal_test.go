package bus

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// TestAdmission has more requests than may run: each user may have a quarter of those that may wait, and of their bytes, no request waits
// longer than the limit, and one that has ended lets the next run.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, stopped := newAdmission(4), make(chan struct{}) // 16 may wait
		for range 4 {
			if _, err := a.acquire(t.Context(), stopped, "Ann", 1); err != nil {
				t.Fatalf("free capacity: got %v", err)
			}
		}
		began, results := time.Now(), make(chan error, 64)
		acquire := func(user string, size int) {
			go func() {
				_, err := a.acquire(t.Context(), stopped, user, size)
				results <- err
			}()
			synctest.Wait()
		}
		for range 7 {
			acquire("Ann", 1)
		}
		acquire("Bob", maxWaitingBytes/4+1)
		if got := len(results); got != 4 { // three of Ann's are over her quarter, and Bob's is too large
			t.Fatalf("declined at once: got %d, want 4", got)
		}
		for range 4 {
			runtest.WantError(t, "results", <-results, errBusy)
		}
		acquire("Bob", 1)
		a.end()
		runtest.WantError(t, "after an end", <-results, nil)
		for range 4 {
			runtest.WantError(t, "results", <-results, errBusy)
		}
		if took := time.Since(began); took != waitsAtMost {
			t.Errorf("waited %s, want %s", took, waitsAtMost)
		}
		if a.total != (load{}) || len(a.waiting) != 0 {
			t.Errorf("got %+v, want that none waits", a)
		}
		acquire("Bob", 1)
		close(stopped)
		runtest.WantError(t, "results", <-results, errStopped)
	})
}
