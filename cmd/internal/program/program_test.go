package program

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWaitIsReportedAfterTwoSeconds prints the reason of a wait after two seconds, and nothing for a shorter wait.
func TestWaitIsReportedAfterTwoSeconds(t *testing.T) {
	t.Parallel()
	for wait, want := range map[time.Duration]string{
		0: "", patience - 1: "", patience + 1: "lash-node: waiting for the end of t\n", time.Hour: "lash-node: waiting for the end of t\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			over := (&Streams{Err: &out}).Waiting("the end of %s", "t")
			time.Sleep(wait) // in the time of the test's bubble
			synctest.Wait()
			over()
			time.Sleep(time.Hour)
			synctest.Wait()
			if out.String() != want {
				t.Errorf("after %s: got %q, want %q", wait, out.String(), want)
			}
		})
	}
}
