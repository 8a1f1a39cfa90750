package session_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/exchange"
)

// noBodies is a store without bodies.
type noBodies struct{}

func (noBodies) Blob(context.Context, events.BlobRef) ([]byte, error) {
	return nil, events.ErrInvalid
}

// history appends one commit with the opening of a session, of a parent that may be empty, and the events.
func history(t *testing.T, log *events.MemLog, id, parent events.SessionID, list ...events.Event) {
	t.Helper()
	opened := &events.SessionOpened{Parent: parent}
	if parent != "" {
		opened.Relation = events.RelationChild
	}
	c := &events.Commit{ID: "c1", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "w"}, Events: append([]events.Event{events.Of("", opened)}, list...)}
	_, err := log.Append(t.Context(), c, 0)
	runtest.NoError(t, err)
}

func childTask(name events.TaskID, child events.SessionID) events.Event {
	return events.Of("", &events.TaskRegistered{Task: name, Of: events.TaskSubagent, Child: child})
}

// TestChildrenOfARecord exports a session with its children: each is in the event that names it first, also where sessions
// name each other, and one that is gone is a loss.
func TestChildrenOfARecord(t *testing.T) {
	t.Parallel()
	log := &events.MemLog{}
	history(t, log, "root", "", childTask("a", "first"), childTask("b", "gone"), childTask("c", "first"))
	history(t, log, "first", "root", events.Of("", &events.UsageCharged{Child: "second", Source: "x", At: 1, Entries: []events.UsageEntry{}}), childTask("d", "root"), childTask("e", "first"))
	history(t, log, "second", "first", childTask("f", "first"))
	d, err := exchange.Read(t.Context(), log, noBodies{}, "root")
	runtest.NoError(t, err)
	alone := exchange.NewRecord(d, exchange.RecordOptions{})
	lost, err := d.ReadChildren(t.Context(), log, noBodies{})
	if want := []exchange.Loss{{What: "child session gone: the source does not have it", Count: 1}}; err != nil || !reflect.DeepEqual(lost.List(), want) {
		t.Fatalf("losses: got %v, %v, want %v", lost.List(), err, want)
	}
	var text bytes.Buffer
	runtest.NoError(t, exchange.RecordJSON(&text, exchange.NewRecord(d, exchange.RecordOptions{})))
	var r struct {
		Session struct {
			Entries []entry `json:"entries"`
		} `json:"session"`
	}
	runtest.NoError(t, json.Unmarshal(text.Bytes(), &r))
	got := shape(r.Session.Entries)
	want := []any{"session.opened", "task.registered", []any{"session.opened", "usage.charged", []any{"session.opened", "task.registered"}, "task.registered", "task.registered"}, "task.registered", "task.registered"}
	runtest.DeepEqual(t, "entries", got, want)
	if again := exchange.NewRecord(d, exchange.RecordOptions{}); len(d.Children) != 2 || len(again.Session.Entries) != len(alone.Session.Entries) {
		t.Errorf("second record: got %d children and %d entries, want those of the first", len(d.Children), len(again.Session.Entries))
	}
}

// TestSessionsOfOthersAreNoChildren: a history names sessions, of which random ones have it as their parent. Those alone, and
// theirs, are taken along.
func TestSessionsOfOthersAreNoChildren(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		log, ids := &events.MemLog{}, []events.SessionID{"root", "a", "b", "c", "d", "e"}
		parents, names := map[events.SessionID]events.SessionID{}, map[events.SessionID][]events.SessionID{}
		for i, id := range ids {
			if i > 0 {
				parents[id] = rapid.SampledFrom(append(slices.Clone(ids[:i]), "", "elsewhere")).Draw(r, "parent of "+string(id))
			}
			names[id] = rapid.SliceOfN(rapid.SampledFrom(ids), 0, 4).Draw(r, "names of "+string(id))
			var list []events.Event
			for n, name := range names[id] {
				list = append(list, childTask(events.TaskID(fmt.Sprint("t", n)), name))
			}
			history(t, log, id, parents[id], list...)
		}
		want := map[events.SessionID]bool{"root": true}
		for range ids {
			for _, id := range ids {
				want[id] = want[id] || parents[id] != "" && want[parents[id]] && slices.Contains(names[parents[id]], id)
			}
		}
		d, err := exchange.Read(t.Context(), log, noBodies{}, "root")
		if err == nil {
			_, err = d.ReadChildren(t.Context(), log, noBodies{})
		}
		runtest.NoError(r, err)
		for _, id := range ids[1:] {
			if _, got := d.Children[id]; got != want[id] {
				r.Errorf("%s: got taken %v, want %v; parents %v, names %v", id, got, want[id], parents, names)
			}
		}
	})
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
