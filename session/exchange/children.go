package exchange

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
)

// maxChildren limits the child sessions that one export takes along, all generations together. They stay in memory.
const maxChildren = 1000

// ReadChildren reads the child sessions of a document, and theirs, into Children. A session is a child of the one that its own
// history says is its parent: a history may have any names, also those of sessions of others. It lists, as losses, those that
// the source does not have, and those of other parents. Errors: more than 1000 children, and those of [Read].
func (d *Document) ReadChildren(ctx context.Context, log events.Log, blobs blob.Reader) (*Losses, error) {
	d.Children = make(map[events.SessionID]*Document)
	lost, others := &Losses{}, make(map[events.SessionID]events.SessionID) // others: parents of sessions that are not taken
	seen := map[events.SessionID]bool{d.Session: true}
	for left := []*Document{d}; len(left) > 0; left = left[1:] {
		for _, id := range left[0].childNames() {
			if parent, is := others[id]; seen[id] || is && parent != left[0].Session {
				continue
			}
			if len(seen)+len(others) > maxChildren {
				return nil, fmt.Errorf("session %s has more than %d child sessions: export them one by one", d.Session, maxChildren)
			}
			child, err := Read(ctx, log, blobs, id)
			switch {
			case errors.Is(err, events.ErrNoSession):
				seen[id] = true
				lost.Add(fmt.Sprintf("child session %s: the source does not have it", id))
			case err != nil:
				return nil, fmt.Errorf("child session %s: %w", id, err)
			case child.Parent != left[0].Session:
				others[id] = child.Parent
			default:
				delete(others, id)
				seen[id] = true
				d.Children[id] = child
				left = append(left, child)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(others)) {
		lost.Add(fmt.Sprintf("child session %s: its own history has another parent; export it by itself", id))
	}
	return lost, nil
}

// childNames are the child sessions that the history names, in its order.
func (d *Document) childNames() (list []events.SessionID) {
	for i := range d.Entries {
		list = append(list, d.Entries[i].childNames()...)
	}
	return list
}

// childNames are the child sessions that an event names: the one that does a task's work, those that hooks created, and one
// whose usage the parent is charged for.
func (e *Entry) childNames() (list []events.SessionID) {
	if e.Event == nil {
		return nil
	}
	switch p := e.Event.Payload.(type) {
	case *events.TaskRegistered:
		list = append(list, p.Child)
	case *events.UsageCharged:
		list = append(list, p.Child)
	case *events.HookRan:
		for i := range p.Decisions {
			list = append(list, p.Decisions[i].Session)
		}
	}
	return slices.DeleteFunc(list, func(id events.SessionID) bool { return id == "" })
}

func newRecorder(children map[events.SessionID]*Document) *recorder {
	return &recorder{calls: make(map[events.TurnID][]openCall), children: children}
}

func (b *recorder) document(d *Document) {
	for i := range d.Entries {
		b.entry(&d.Entries[i])
	}
}

// childEntries are the entries of the child sessions that an event is the first to name.
func (b *recorder) childEntries(e *Entry) (list []RecordEntry) {
	for _, id := range e.childNames() {
		child := b.children[id]
		if child == nil {
			continue
		}
		delete(b.children, id)
		of := newRecorder(b.children)
		of.document(child)
		list = append(list, of.list...)
	}
	return list
}
