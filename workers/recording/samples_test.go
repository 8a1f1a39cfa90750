package recording_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// counts are those of [stats] that each line of JSON says by itself. Types of other entries are left out.
func counts(t *testing.T, data []byte) stats {
	t.Helper()
	var sum stats
	for line := range bytes.Lines(data) {
		var e struct {
			Type     string
			Messages []recordedMessage
			Message  *recordedMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.Messages != nil:
			for _, m := range e.Messages {
				m.count(&sum)
			}
			continue
		case e.Message != nil:
			e.Message.count(&sum)
			continue
		case e.Type == "compaction":
			sum.Compactions++
		case e.Type == "session" || e.Type == "model_change" || e.Type == "thinking_level_change":
			sum.Configs++
		}
		sum.Entries++
	}
	return sum
}

// recordedMessage has what counts of a message in either format.
type recordedMessage struct {
	Role         string
	StopReason   string
	IsError      bool
	Content      any
	ToolCalls    []any `json:"tool_calls"`
	FunctionCall any   `json:"function_call"`
}

func (m *recordedMessage) count(sum *stats) {
	sum.Entries++
	switch m.Role {
	case "system", "developer":
		sum.Systems++
	case "user":
		sum.Users++
	case "tool", "toolResult", "function":
		sum.Results++
		if m.IsError {
			sum.Failed++
		}
	case "assistant":
		sum.Replies++
		if m.StopReason == "aborted" {
			sum.Aborted++
		}
		if m.StopReason == "error" {
			sum.Errored++
		}
		sum.Calls += len(m.ToolCalls)
		if m.FunctionCall != nil {
			sum.Calls++
		}
		parts, _ := m.Content.([]any)
		for _, p := range parts {
			if part, _ := p.(map[string]any); part["type"] == "toolCall" {
				sum.Calls++
			}
		}
	}
}

// TestSizedSamples reads recordings of all kinds: each conversation keeps the rules for callers, and together they have what
// their lines say.
func TestSizedSamples(t *testing.T) {
	t.Parallel()
	const chat, pi = recording.FormatChat, recording.FormatPi
	files := [][]byte{recordingtest.Demo(), recordingtest.Written(), recordingtest.Each(chat), recordingtest.Each(pi), recordingtest.Large()}
	for seed := range runtest.Of[uint64](10, 2000) {
		files = append(files, recordingtest.Make(seed, chat, 40), recordingtest.Make(seed, pi, 80))
	}
	for i, data := range files {
		var sum stats
		for _, c := range recordingtest.Read(data) {
			checkConversation(t, c)
			s := statsOf(c)
			sum.add(&s)
		}
		want := counts(t, data)
		if sum.Answered+sum.Orphans != want.Results || sum.Answered > want.Calls {
			t.Errorf("file %d: got %d answered calls and %d orphans, want %d results of %d calls", i, sum.Answered, sum.Orphans, want.Results, want.Calls)
		}
		want.Answered, want.Orphans = sum.Answered, sum.Orphans // no line says it
		if !reflect.DeepEqual(sum, want) {
			t.Errorf("file %d:\n got %+v\nwant %+v", i, sum, want)
		}
	}
}

func (s *stats) add(o *stats) {
	s.Entries += o.Entries
	s.Systems += o.Systems
	s.Users += o.Users
	s.Replies += o.Replies
	s.Aborted += o.Aborted
	s.Errored += o.Errored
	s.Calls += o.Calls
	s.Answered += o.Answered
	s.Results += o.Results
	s.Failed += o.Failed
	s.Orphans += o.Orphans
	s.Configs += o.Configs
	s.Compactions += o.Compactions
}
