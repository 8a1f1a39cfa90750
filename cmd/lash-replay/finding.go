package main

import (
	"cmp"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
)

// Checks of this command, in addition to those of package projector.
const (
	checkHistory  projector.Rule = "history"
	checkBlob     projector.Rule = "blob"
	checkBase     projector.Rule = "base"
	checkSnapshot projector.Rule = "snapshot"
	checkArchive  projector.Rule = "archive"
)

// finding is one violation and its location.
type finding struct {
	Session events.SessionID `json:"session,omitempty"`
	File    string           `json:"file,omitempty"`
	Seq     events.Seq       `json:"seq,omitempty"` // 0: the session as a whole
	Event   *int             `json:"event,omitempty"`
	Check   projector.Rule   `json:"check"`
	Problem string           `json:"problem"`

	Upto   events.Seq      `json:"upto,omitempty"`   // of a proof: last sequence, where only a range is known
	Commit events.CommitID `json:"commit,omitempty"` // of a proof
	Fault  proof.Fault     `json:"fault,omitempty"`  // of a proof
}

func (f finding) String() string {
	where := cmp.Or(string(f.Session), f.File)
	if f.Seq > 0 {
		where += fmt.Sprintf(" at %d", f.Seq)
	}
	if f.Event != nil {
		where += fmt.Sprintf(".%d", *f.Event)
	}
	if f.Fault == "" {
		return fmt.Sprintf("%s: %s: %s", where, f.Check, f.Problem)
	}
	if f.Commit != "" {
		where += ", commit " + string(f.Commit)
	}
	return fmt.Sprintf("%s: %s: %s: %s", where, f.Check, f.Fault, f.Problem)
}

// counts is how much was verified.
type counts struct {
	Sessions  int64 `json:"sessions"`
	Commits   int64 `json:"commits"`
	Events    int64 `json:"events"`
	Snapshots int64 `json:"snapshots"`
	Bases     int64 `json:"bases"` // of copies, compared with their originals
	Prompts   int64 `json:"prompts"`
	Blobs     int64 `json:"blobs"`
}

// findings is what was found, in one session or in all of a command, where it is printed.
type findings struct {
	counts
	Invariants string       `json:"invariants"` // how often they were checked
	Violations []finding    `json:"violations"`
	Proven     []*proven    `json:"proven,omitempty"`          // by session
	Tombstones []*tombstone `json:"tombstones,omitempty"`      // of erased sessions
	Unchecked  int64        `json:"unchecked_heads,omitempty"` // for want of a key
	Trusted    []string     `json:"trusted,omitempty"`         // names of tenants' keys
	Notes      []string     `json:"notes,omitempty"`           // what could not be checked
	lastHead   *proof.Head  // of the last session
}

// merge adds what was found in one session.
func (f *findings) merge(one *findings) {
	f.Sessions += one.Sessions
	f.Commits += one.Commits
	f.Events += one.Events
	f.Snapshots += one.Snapshots
	f.Bases += one.Bases
	f.Prompts += one.Prompts
	f.Blobs += one.Blobs
	f.Violations = append(f.Violations, one.Violations...)
	f.Proven = append(f.Proven, one.Proven...)
	f.Tombstones = append(f.Tombstones, one.Tombstones...)
	f.Unchecked += one.Unchecked
	f.Notes = append(f.Notes, one.Notes...)
	f.lastHead = one.lastHead
}
