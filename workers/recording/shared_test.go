package recording_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lash-go/lash/workers/recording"
)

// shared reads a file of real recordings, which are not in the repository.
func shared(t *testing.T, name string) []recording.Conversation {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no recordings beside the project: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	all, err := recording.Read(file.Name(), file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func total(all []recording.Conversation) stats {
	sum := stats{Others: map[string]int{}}
	for _, c := range all {
		s := statsOf(c)
		sum.Entries += s.Entries
		sum.Systems += s.Systems
		sum.Users += s.Users
		sum.Replies += s.Replies
		sum.Aborted += s.Aborted
		sum.Errored += s.Errored
		sum.Calls += s.Calls
		sum.Answered += s.Answered
		sum.Results += s.Results
		sum.Failed += s.Failed
		sum.Orphans += s.Orphans
		sum.Configs += s.Configs
		sum.Compactions += s.Compactions
		for name, n := range s.Others {
			sum.Others[name] += n
		}
	}
	return sum
}

func TestSharedChats(t *testing.T) {
	t.Parallel()
	all := shared(t, "airline-chats.jsonl")
	if len(all) != 40 {
		t.Errorf("got %d conversations, want 40", len(all))
	}
	for _, c := range all {
		checkConversation(t, c)
	}
	want := stats{
		Entries: 1222, Systems: 40, Users: 357, Replies: 571,
		Calls: 254, Answered: 254, Results: 254, Others: map[string]int{},
	}
	if got := total(all); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestSharedSession(t *testing.T) {
	t.Parallel()
	all := shared(t, "coding-session.jsonl")
	if len(all) != 1 {
		t.Fatalf("got %d conversations, want 1", len(all))
	}
	checkConversation(t, all[0])
	want := stats{
		Entries: 1019, Users: 88, Replies: 453, Aborted: 21, Errored: 1,
		Calls: 391, Answered: 373, Results: 373, Failed: 19, Configs: 105, Others: map[string]int{},
	}
	if got := statsOf(all[0]); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if unanswered := want.Calls - want.Answered; unanswered != 18 {
		t.Errorf("got %d calls never answered, want 18", unanswered)
	}
}
