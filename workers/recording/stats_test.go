package recording_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

func TestStats(t *testing.T) {
	t.Parallel()
	const message = `{"type":"message","message":`
	tests := map[string]struct {
		lines []string
		want  stats
	}{
		"chat": {
			[]string{`{"messages":[{"role":"system"},{"role":"user"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a"},{"role":"tool","tool_call_id":"a"},{"role":"user"}]}`},
			stats{Entries: 6, Systems: 1, Users: 2, Replies: 1, Calls: 2, Answered: 1, Results: 2, Orphans: 1, Others: map[string]int{}},
		},
		"pi": {
			[]string{
				`{"type":"session"}`,
				message + `{"role":"assistant","stopReason":"aborted"}}`,
				message + `{"role":"assistant","stopReason":"error","content":[{"type":"toolCall","id":"a","name":"f"}]}}`,
				message + `{"role":"toolResult","toolCallId":"a","isError":true}}`,
				message + `{"role":"toolResult","toolCallId":"b","isError":true}}`,
				message + `{"role":"bashExecution"}}`,
				message + `{"role":"custom"}}`,
				`{"type":"custom"}`, `{"type":"label"}`, `{"type":"compaction"}`, `{"type":"model_change"}`,
			},
			stats{
				Entries: 11, Replies: 2, Aborted: 1, Errored: 1, Calls: 1, Answered: 1, Results: 2, Failed: 2, Orphans: 1,
				Configs: 2, Compactions: 1, Contexts: 2, Others: map[string]int{"custom": 1, "label": 1},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := statsOf(conversations(t, strings.Join(tt.lines, "\n"))[0])
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// stats are counts of a conversation.
type stats struct {
	Entries     int
	Systems     int
	Users       int
	Replies     int
	Aborted     int // cancelled replies
	Errored     int // replies that ended with a provider error
	Calls       int
	Answered    int // calls with a result
	Results     int
	Failed      int // results, with orphans
	Orphans     int // results without a call
	Configs     int
	Compactions int
	Contexts    int
	Others      map[string]int // shell and other entries by type; never nil
}

func statsOf(c recording.Conversation) stats {
	s := stats{Entries: len(c.Entries), Others: map[string]int{}}
	for _, e := range c.Entries {
		switch e.Kind {
		case recording.EntrySystem:
			s.Systems++
		case recording.EntryUser:
			s.Users++
		case recording.EntryReply:
			s.addReply(e.Reply)
		case recording.EntryResult:
			s.addResult(e.Result)
		case recording.EntryConfig:
			s.Configs++
		case recording.EntryCompaction:
			s.Compactions++
		case recording.EntryContext:
			s.Contexts++
		case recording.EntryShell, recording.EntryOther:
			s.Others[e.Type]++
		}
	}
	return s
}

func (s *stats) addReply(r recording.Reply) {
	s.Replies++
	if r.Stop == events.StopCancelled {
		s.Aborted++
	}
	if r.Stop == events.StopProviderError {
		s.Errored++
	}
	for _, p := range r.Parts {
		if p.Kind == events.PartToolCall {
			s.Calls++
		}
	}
}

func (s *stats) addResult(r recording.Result) {
	s.Results++
	if r.Failed {
		s.Failed++
	}
	if r.Orphan() {
		s.Orphans++
	} else {
		s.Answered++
	}
}
