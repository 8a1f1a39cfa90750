package main

import (
	"cmp"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

// plansOf names a session for each conversation: its recorded id, changed to a valid token, with a number appended
// where the name is taken. The same files in the same order give the same names.
func plansOf(convs []recording.Conversation) []*playback.Plan {
	used := make(map[events.SessionID]bool)
	plans := make([]*playback.Plan, len(convs))
	for i := range convs {
		base := cmp.Or(events.TokenOf(convs[i].ID), "conversation")
		id := events.SessionID(base)
		for n := 2; used[id]; n++ {
			suffix := fmt.Sprintf("-%d", n)
			id = events.SessionID(base[:min(len(base), events.MaxTokenBytes-len(suffix))] + suffix)
		}
		used[id] = true
		plans[i] = playback.NewPlan(id, &convs[i])
	}
	return plans
}
