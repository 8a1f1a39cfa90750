package external

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestPick has instances come, go, drain and change in any order. A call's instance stays the same while it lives and
// takes calls, unless one that ranks higher joins; without one that takes calls there is none.
func TestPick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		k := p.byName["notes"]
		k.hash = "h"
		before, usable := "", make(map[string]bool)
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				id := fmt.Sprint("i", rapid.IntRange(0, 4).Draw(t, "instance"))
				i := &instance{wire.Sign{Hash: "h"}, 0}
				switch rapid.SampledFrom([]string{"live", "late", "draining", "other", "gone"}).Draw(t, "as") {
				case "late":
					i.heard = -wire.Lease - time.Second
				case "draining":
					i.Draining = true
				case "other":
					i.Hash = "another"
				case "gone":
					i = nil
				}
				delete(k.instances, id)
				if i != nil {
					k.instances[id] = i
				}
				usable[id] = i != nil && -i.heard < wire.Lease && !i.Draining && i.Hash == "h"
				now := p.pick("notes", "call")
				if now != before && usable[before] && now != id {
					t.Fatalf("after a change of %s: got %q, want %q still", id, now, before)
				}
				before = now
			},
			"": func(t *rapid.T) {
				some := false
				for _, ok := range usable {
					some = some || ok
				}
				if (before != "") != some || before != "" && !usable[before] {
					t.Fatalf("got %q, usable are %v", before, usable)
				}
			},
		})
	})
}

// TestPickSpreads has calls go to all instances.
func TestPickSpreads(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for _, id := range []string{"i1", "i2", "i3"} {
		p.byName["notes"].instances[id] = &instance{}
	}
	calls := make(map[string]int)
	for n := range 3000 {
		calls[p.pick("notes", fmt.Sprint("t", n))]++
	}
	for id, n := range calls {
		if n < 700 || len(calls) != 3 {
			t.Errorf("calls of %s: got %d of 3000, want about a third: %v", id, n, calls)
		}
	}
}
