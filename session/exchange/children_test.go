package exchange_test

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/exchange"
)

// noBodies is a store without bodies.
type noBodies struct{}

func (noBodies) Blob(context.Context, events.BlobRef) ([]byte, error) {
	return nil, events.ErrInvalid
}

// history appends one commit with the opening of a session and the events.
func history(t *testing.T, log *events.MemLog, id events.SessionID, list ...events.Event) {
	t.Helper()
	c := &events.Commit{ID: "c1", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: append([]events.Event{events.Of("", &events.SessionOpened{})}, list...)}
	if _, err := log.Append(t.Context(), c, 0); err != nil {
		t.Fatal(err)
	}
}

func childTask(name events.TaskID, child events.SessionID) events.Event {
	return events.Of("", &events.TaskRegistered{Task: name, Of: events.TaskSubagent, Child: child})
}

// TestChildrenOfARecord exports a session with its children: each is in the event that names it first, also where sessions
// name each other, and one that is gone is a loss.
func TestChildrenOfARecord(t *testing.T) {
	t.Parallel()
	log := &events.MemLog{}
	history(t, log, "root", childTask("a", "first"), childTask("b", "gone"), childTask("c", "first"))
	history(t, log, "first", events.Of("", &events.UsageCharged{Child: "second", Source: "x", At: 1, Entries: []events.UsageEntry{}}), childTask("d", "root"), childTask("e", "first"))
	history(t, log, "second", childTask("f", "first"))
	d, err := exchange.Read(t.Context(), log, noBodies{}, "root")
	if err != nil {
		t.Fatal(err)
	}
	alone := exchange.NewRecord(d, exchange.RecordOptions{})
	lost, err := d.ReadChildren(t.Context(), log, noBodies{})
	if want := []exchange.Loss{{What: "child session gone: the source does not have it", Count: 1}}; err != nil || !reflect.DeepEqual(lost.List(), want) {
		t.Fatalf("losses: got %v, %v, want %v", lost.List(), err, want)
	}
	var text bytes.Buffer
	if err := exchange.RecordJSON(&text, exchange.NewRecord(d, exchange.RecordOptions{})); err != nil {
		t.Fatal(err)
	}
	var r struct {
		Session struct {
			Entries []entry `json:"entries"`
		} `json:"session"`
	}
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	got := shape(r.Session.Entries)
	want := []any{"session.opened", "task.registered", []any{"session.opened", "usage.charged", []any{"session.opened", "task.registered"}, "task.registered", "task.registered"}, "task.registered", "task.registered"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("entries: got %v, want %v", got, want)
	}
	if again := exchange.NewRecord(d, exchange.RecordOptions{}); len(d.Children) != 2 || len(again.Session.Entries) != len(alone.Session.Entries) {
		t.Errorf("second record: got %d children and %d entries, want those of the first", len(d.Children), len(again.Session.Entries))
	}
}

type entry struct {
	Event    string  `json:"event-type"`
	Children []entry `json:"children"`
}

// shape is the names of events, with a list of those of the children after each.
func shape(entries []entry) []any {
	list := []any{}
	for _, e := range entries {
		list = append(list, e.Event)
		if len(e.Children) > 0 {
			list = append(list, shape(e.Children))
		}
	}
	return list
}
