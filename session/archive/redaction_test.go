package archive_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
)

const secret = "hunter2-the-secret"

// secretHistory is a closed session with one turn of a tool call. The secret is in its input, the call, the result and the
// replies. padding makes the archive larger than an entry.
func secretHistory(padding string) [][]events.Event {
	part := func(text string) []events.Part { return []events.Part{{Kind: events.PartText, Text: text}} }
	call := events.Part{Kind: events.PartToolCall, Call: "c1", Tool: "read", Args: []byte(`{"key":"` + secret + `"}`)}
	return [][]events.Event{
		{events.Of("", &events.SessionOpened{Labels: map[string]string{"a": "b"}})},
		{events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: part("my key is " + secret + padding)}})},
		{events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})},
		{events.Of("t1", &events.ModelReplied{Parts: []events.Part{call}, Stop: events.StopToolUse})},
		{events.Of("t1", &events.ToolReturned{Results: []events.ToolResult{{Outcome: events.OutcomeSuccess, Text: "read with " + secret}}})},
		{events.Of("t1", &events.ModelReplied{Iteration: 1, Parts: part("done with " + secret), Stop: events.StopEnd}), events.Of("t1", &events.TurnCompleted{End: events.EndFinished})},
		{events.Of("t1", &events.TurnTold{Worker: "w1"})},
		{events.Of("", &events.SessionClosed{})},
	}
}

// noise does not compress.
func noise(n int) string {
	text := make([]byte, n)
	for i, x := 0, uint32(1); i < n; i++ {
		x = x*1664525 + 1013904223
		text[i] = 'a' + byte(x>>24)%26
	}
	return string(text)
}

// closed appends the history to a session, and returns its leaves.
func closed(t *testing.T, b *bus.Bus, id events.SessionID, history [][]events.Event) []proof.Hash {
	t.Helper()
	for i, list := range history {
		salt := bytes.Repeat([]byte{byte(i + 1)}, events.SaltBytes)
		c := &events.Commit{
			ID: commitID(i), Session: id, At: events.Millis(1000 + i), Salt: salt,
			Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list,
		}
		_, err := b.Log().Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
	runtest.NoError(t, follow.NewProjector(b, nil).Project(t.Context(), id))
	return leaves(t, b, id)
}

// commitID is a ULID.
func commitID(i int) events.CommitID {
	return events.CommitID(fmt.Sprintf("01JD6Z000000000000000000%02d", i))
}

func leaves(t *testing.T, b *bus.Bus, id events.SessionID) (list []proof.Hash) {
	t.Helper()
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		list = append(list, events.CommitHash(e.Data))
	}
	return list
}

// holding lists what has the secret: commits, and messages of streams, which are rows and pieces of blobs too.
func holding(t *testing.T, b *bus.Bus, id events.SessionID) (list []string) {
	t.Helper()
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		if bytes.Contains(e.Data, []byte(secret)) {
			list = append(list, fmt.Sprint("sequence ", e.Seq))
		}
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		stream, err := js.Stream(t.Context(), name)
		runtest.NoError(t, err)
		info := stream.CachedInfo()
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			msg, err := stream.GetMsg(t.Context(), seq)
			if err == nil && bytes.Contains(msg.Data, []byte(secret)) {
				list = append(list, msg.Subject)
			}
		}
	}
	return list
}

func record(what ...string) events.RedactionRecord {
	return events.RedactionRecord{At: events.MillisOf(time.Now()), By: "ann", Reason: "asked to", What: what}
}

// contents are the kinds of the history that have texts of users, models and tools.
var contents = []string{"turn.requested", "model.*", "tool.returned"}

// packed lists a pack of index rows that has the secret, and the session.
func packed(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	rows, _ := b.Index()
	p, err := rows.PutPack(t.Context(), []byte(secret))
	runtest.NoError(t, err)
	p.UpTo, p.Filter = p.Revision-1, bus.NewPackFilter([]events.SessionID{id})
	runtest.NoError(t, rows.PutPacks(t.Context(), &bus.PackList{Packs: []bus.Pack{p}}))
}

// TestRedactCold redacts a hot session, and one whose archive is in blobs: the secret is nowhere, every leaf is as before, and
// the session takes no appends.
func TestRedactCold(t *testing.T) {
	t.Parallel()
	signer, key := eventstest.Signing(t)
	for name, padding := range map[string]string{"small": "", "large": noise(200 << 10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			history := secretHistory(padding)
			if padding != "" {
				for i := range 4 {
					more := events.TurnID(fmt.Sprint("u", i))
					text := []events.Part{{Kind: events.PartText, Text: secret + padding}}
					history = append(history[:len(history)-1:len(history)-1],
						[]events.Event{events.Of(more, &events.TurnRequested{Input: events.TurnInput{Parts: text}})},
						[]events.Event{events.Of(more, &events.TurnCompleted{End: events.EndCancelled})},
						history[len(history)-1])
				}
			}
			before := closed(t, b, "s", history)
			packed(t, b, "s")
			if len(holding(t, b, "s")) == 0 {
				t.Fatal("the secret is nowhere before the redaction")
			}
			got, err := archive.Redact(t.Context(), b, "s", record(contents...), signer)
			runtest.NoError(t, err)
			want := int64(4) // a request, two replies, a result
			if padding != "" {
				want += 4
			}
			if got.Events != want || got.By != "ann" || got.Reason != "asked to" {
				t.Errorf("got %+v, want %d events", got, want)
			}
			if left := holding(t, b, "s"); len(left) > 0 {
				t.Errorf("the secret is left in %v", left)
			}
			if after := leaves(t, b, "s"); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("leaves: got %v, want %v", after, before)
			}
			signed, _, err := proof.ReadRedaction([]byte(got.Note), []note.Verifier{key})
			if err != nil || signed.Session != "s" || signed.At != got.At || signed.By != "ann" || signed.Reason != "asked to" ||
				signed.Size != events.Seq(len(before)) || fmt.Sprint(signed.What) != fmt.Sprint(contents) || signed.Root != rootOf(before) {
				t.Errorf("signed record: got %+v, %v", signed, err)
			}
			s, err := follow.Open(t.Context(), b, "s")
			if err != nil || s.Status != projector.StatusClosed || s.Redacted != 2 {
				t.Fatalf("open: got %+v, %v, want a closed session, redacted from 2 on", s, err)
			}
			late := &events.Commit{ID: "late", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode}, Events: []events.Event{events.Of("", &events.SessionClosed{})}}
			_, err = b.Log().Append(t.Context(), late, s.Seq)
			runtest.WantError(t, "append", err, bus.ErrRedacted)
			again, err := archive.Redact(t.Context(), b, "s", record("model.replied"), signer)
			if err != nil || again.Note != got.Note {
				t.Errorf("again: got %+v, %v, want the first record", again, err)
			}
			if padding != "" {
				if stored, err := b.Blobs(t.Context()); err != nil || len(stored) > 1 {
					t.Errorf("got %d blobs, %v, want at most the file of the redacted archive", len(stored), err)
				}
			}
			_, err = follow.Erase(t.Context(), b, "s", nil, bus.Tombstone{At: 1, By: "ann", Reason: "gone"}, nil)
			runtest.WantError(t, "erase", err, nil)
		})
	}
}

// rootOf is the root of these leaves.
func rootOf(list []proof.Hash) proof.Hash {
	var tree proof.Tree
	for _, leaf := range list[:len(list)-1] {
		tree.Append(leaf)
	}
	return tree.Root(list[len(list)-1])
}

// kindsOf are the kinds of a history, sorted.
func kindsOf(history [][]events.Event) string {
	var list []string
	for _, commit := range history {
		for _, event := range commit {
			list = append(list, string(event.Kind))
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// TestRedactRefused: what would leave a session that works, and names of nothing.
func TestRedactRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	closed(t, b, "s", secretHistory(""))
	whole := secretHistory("")
	closed(t, b, "open", whole[:len(whole)-1])
	kept := events.TaskRegistered{Task: "build", Of: events.TaskTool, Runner: "w"}
	closed(t, b, "busy", slices.Insert(secretHistory(""), len(whole)-1, []events.Event{events.Of("", &kept)}))
	before := leaves(t, b, "s")
	for _, c := range []struct {
		id   events.SessionID
		what []string
		want string
	}{
		{"open", contents, `only a closed session without work can be redacted: its status is "open"`},
		{"busy", contents, "the session is closed, and has work left: the tasks build, which were kept: a cancel ends them"},
		{"none", contents, "no such session"},
		{"s", nil, "want 1 to 64"},
		{"s", make([]string, 65), "want 1 to 64"},
		{"s", []string{""}, "a name of 0 bytes, want 1 to 300"},
		{"s", []string{strings.Repeat("x", 301)}, "a name of 301 bytes, want 1 to 300"},
		{"s", []string{"[", "model.replied"}, `"[": syntax error in pattern`},
		{"s", []string{"model.replied", "model.replid"}, `"model.replid": no event of session s that can be redacted has this kind or id: its kinds are ` + kindsOf(whole)},
		{"s", []string{string(commitID(3)) + ".1"}, "no event of session s"},
		{"s", []string{"session.closed"}, `without them its status would be "open"`},
		{"s", []string{"session.*"}, "without them its status would be"},
		{"s", []string{"*"}, "; name some of its kinds: " + kindsOf(whole)},
		{"s", []string{"turn.completed"}, "without them"},
	} {
		_, err := archive.Redact(t.Context(), b, c.id, record(c.what...), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.40q: got %v, want %q", c.id, c.what, err, c.want)
		}
	}
	if list, err := b.Redactions(t.Context(), "s"); err != nil || len(list) > 0 {
		t.Errorf("records: got %v, %v, want none", list, err)
	}
	if after := leaves(t, b, "s"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Error("the history has changed")
	}
	_, err := archive.Redact(t.Context(), b, "s", record(string(commitID(3))+".0"), nil)
	runtest.WantError(t, "an event by its id", err, nil)
	if left := inHistory(t, b, "s"); left != 3 {
		t.Errorf("the secret is left in %d commits, want three", left)
	}
}

// TestRedactAtOnce has processes redact the same events of a session at once. One of them does it, and all return its record.
func TestRedactAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	buses := []*bus.Bus{bustest.Open(t, server), bustest.Open(t, server), bustest.Open(t, server)}
	for round := range 8 {
		id := events.SessionID(fmt.Sprint("s", round))
		closed(t, buses[0], id, secretHistory(""))
		records, errs := make([]events.RedactionRecord, len(buses)), make([]error, len(buses))
		var all sync.WaitGroup
		for i, b := range buses {
			r := record(contents...)
			r.By = fmt.Sprint("caller-", i)
			all.Go(func() { records[i], errs[i] = archive.Redact(t.Context(), b, id, r, nil) })
		}
		all.Wait()
		list, err := buses[0].Redactions(t.Context(), id)
		if err != nil || len(list) != 1 {
			t.Fatalf("round %d: got records %v, %v, want one", round, list, err)
		}
		for i := range buses {
			if errs[i] != nil || records[i].By != list[0].By {
				t.Errorf("round %d, %d: got the record of %q, %v, want that of %q", round, i, records[i].By, errs[i], list[0].By)
			}
		}
		if left := inHistory(t, buses[0], id); left != 0 {
			t.Errorf("round %d: the secret is left in %d commits", round, left)
		}
	}
}
