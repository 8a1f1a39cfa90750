package main

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
)

// plansOf names a session for each conversation: its recorded id made fit to
// be a token, and a number behind it where that is taken. The same files in
// the same order give the same names.
func plansOf(convs []recording.Conversation) []*playback.Plan {
	taken := make(map[events.SessionID]bool)
	plans := make([]*playback.Plan, len(convs))
	for i := range convs {
		base := tokenOf(convs[i].ID)
		id := events.SessionID(base)
		for n := 2; taken[id]; n++ {
			suffix := fmt.Sprintf("-%d", n)
			id = events.SessionID(base[:min(len(base), events.MaxTokenBytes-len(suffix))] + suffix)
		}
		taken[id] = true
		plans[i] = playback.NewPlan(id, &convs[i])
	}
	return plans
}

// tokenOf replaces what a token may not hold.
func tokenOf(id string) string {
	token := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '-'
	}, id)
	if token == "" {
		token = "conversation"
	}
	return token[:min(len(token), events.MaxTokenBytes)]
}
