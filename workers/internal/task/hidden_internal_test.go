package task

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/api"
)

// TestHidden spawns, ends and awaits hidden tasks in any order. An await meets the error that it would meet if all
// tasks were kept, no more of one session run than may, and no task stays that ended well.
func TestHidden(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := make(hiddenTasks)
		var all, running []*hiddenTask // all: since the last await
		first := func(list []*hiddenTask) *hiddenTask {
			for _, one := range list {
				if one.err != nil {
					return one
				}
			}
			return nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"spawn": func(t *rapid.T) {
				for range rapid.SampledFrom([]int{1, 1, 1, MaxHidden}).Draw(t, "n") {
					one := &hiddenTask{}
					err := h.add("s", one)
					if full := len(running) == MaxHidden; full != errors.As(err, new(*api.LimitError)) {
						t.Fatalf("spawn beside %d: got %v", len(running), err)
					}
					if err == nil {
						all, running = append(all, one), append(running, one)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				one := running[i]
				if rapid.Bool().Draw(t, "fails") {
					one.err = errors.New("failed")
				}
				running = slices.Delete(running, i, i+1)
				h.end("s", one)
			},
			"await": func(t *rapid.T) {
				got := h.take("s")
				if first(got) != first(all) {
					t.Fatal("got another error than that of the task that was spawned first")
				}
				for _, one := range all {
					if slices.Contains(running, one) != slices.Contains(got, one) && one.err == nil {
						t.Fatal("got tasks that ended, or not all that run")
					}
				}
				all = nil
			},
			"": func(t *rapid.T) {
				of := h["s"]
				if of == nil {
					of = &hiddenOf{}
				}
				if of.running != len(running) || len(of.tasks) > len(running)+1 || (h["s"] != nil) != (len(running) > 0 || first(all) != nil) {
					t.Fatalf("got %d that run, %d kept, want %d and at most one more", of.running, len(of.tasks), len(running))
				}
			},
		})
	})
}
