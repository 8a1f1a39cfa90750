package recording_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/workers/recording"
)

func TestStats(t *testing.T) {
	t.Parallel()
	const message = `{"type":"message","message":`
	tests := map[string]struct {
		lines []string
		want  recording.Stats
	}{
		"chat": {
			[]string{`{"messages":[{"role":"system"},{"role":"user"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"f"}}]},{"role":"tool","tool_call_id":"a"},{"role":"tool","tool_call_id":"a"},{"role":"user"}]}`},
			recording.Stats{Entries: 6, Systems: 1, Users: 2, Replies: 1, Calls: 2, Answered: 1, Results: 2, Orphans: 1, Others: map[string]int{}},
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
			recording.Stats{
				Entries: 11, Replies: 2, Aborted: 1, Errored: 1, Calls: 1, Answered: 1, Results: 2, Failed: 2, Orphans: 1,
				Configs: 2, Compactions: 1, Others: map[string]int{"bashExecution": 1, "custom": 2, "label": 1},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := conversations(t, strings.Join(tt.lines, "\n"))[0].Stats()
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}
