package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// TestPick has instances come, go, drain and change in any order. A call's instance stays the same while it lives and
// takes calls, unless one that ranks higher joins; without one that takes calls there is none.
func TestPick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(nil, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Stop()
		k := p.byName["notes"]
		k.row.Hash = "h"
		before, usable := "", make(map[string]bool)
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				id := fmt.Sprint("i", rapid.IntRange(0, 4).Draw(t, "instance"))
				i := &instance{wire.Sign{Hash: "h"}, 0}
				switch rapid.SampledFrom([]string{"live", "late", "draining", "other", "gone"}).Draw(t, "as") {
				case "late":
					i.at = -wire.Lease - time.Second
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
				usable[id] = i != nil && -i.at < wire.Lease && !i.Draining && i.Hash == "h"
				now := p.Pick("notes", wire.CallID{Session: "s", Call: "t1/0/0"})
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

// TestPickSpreads has calls go to all instances equally, whatever the ids of instances and calls have in common.
func TestPickSpreads(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"numbers": "i%d", "number_first": "%d-notes", "number_inside": "notes-%d.example"} {
		for shape, call := range map[string]string{"turns": "s t%d/0/0", "replies": "s t1/%d/0", "one_reply": "s t1/0/%d", "sessions": "s%d t1/0/0"} {
			t.Run(name+"/"+shape, func(t *testing.T) {
				t.Parallel()
				p, err := New(nil, zap.NewNop(), []setting.Plugin{{Name: "notes"}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer p.Stop()
				for n := range 4 { // from 1: ids whose last bits take all values spread by themselves
					p.byName["notes"].instances[fmt.Sprintf(id, n+1)] = &instance{}
				}
				calls := make(map[string]int)
				for n := range 4000 {
					session, effect, _ := strings.Cut(fmt.Sprintf(call, n), " ")
					calls[p.Pick("notes", wire.CallID{Session: events.SessionID(session), Call: events.EffectID(effect)})]++
				}
				for id, n := range calls {
					if n < 850 || len(calls) != 4 { // 5 standard deviations
						t.Errorf("calls of %s: got %d of 4000, want about a quarter: %v", id, n, calls)
					}
				}
			})
		}
	}
}
