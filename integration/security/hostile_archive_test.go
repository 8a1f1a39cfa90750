package security

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
)

// source is a history that archives are made from.
type source struct {
	file    []byte
	commits []events.Entry
	blobs   [][]byte
}

// archiveTargets are imports of archives: changed files, and changed histories under other ids. The verifier accepts no
// recorded conversation under another id, because its prompts have the id. The session quiet has no prompts.
func (s *siege) archiveTargets() []target {
	s.T.Helper()
	host := s.node.Host()
	_, err := host.Create(s.Ctx, api.CreateRequest{ID: "quiet"})
	runtest.WantError(s.T, "create", err, nil)
	s.record("quiet")
	ref, err := host.StoreBlob(s.Ctx, "quiet", []byte("a body"))
	runtest.WantError(s.T, "body", err, nil)
	for n := range 4 {
		part := events.Part{Kind: events.PartAttachment, MediaType: "text/plain", Blob: ref}
		_, err = host.AppendNodes(s.Ctx, "quiet", api.AppendNodesRequest{Nodes: []api.AppendNode{{
			ID: events.NodeID(fmt.Sprint("n", n)), Kind: events.NodeMessage, Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{harness.Text("hello"), part}},
		}}})
		runtest.WantError(s.T, "append", err, nil)
	}
	quiet, recorded := s.source("quiet"), s.source("warm-0")
	fresh := func(a *attacker) events.SessionID { return events.SessionID("a-" + a.unique()) }
	return []target{
		{"archive", "import_file", func(a *attacker) { a.imports(a.bytes(pick(a.forger, quiet, recorded).file)) }},
		{"archive", "import_recorded", func(a *attacker) { a.imports(a.history(recorded, fresh(a))) }},
		{"archive", "import_quiet", func(a *attacker) { a.imports(a.history(quiet, fresh(a))) }},
	}
}

func (s *siege) source(id events.SessionID) (from source) {
	s.T.Helper()
	var file bytes.Buffer
	_, err := archive.Write(s.Ctx, s.Bus.Log(), s.Bus, id, &file)
	runtest.WantError(s.T, "archive", err, nil)
	from.file = bytes.Clone(file.Bytes())
	a, err := events.ReadArchive(&file, 64<<20)
	runtest.WantError(s.T, "read the archive", err, nil)
	for entry, err := range a.Log.Read(s.Ctx, id, 1) {
		runtest.WantError(s.T, "read a commit", err, nil)
		from.commits = append(from.commits, entry)
	}
	for _, body := range a.Blobs {
		from.blobs = append(from.blobs, body)
	}
	return from
}

// history is an archive of a session, some of whose commits differ from the recorded ones. A commit that cannot be
// encoded stays as it was.
func (a *attacker) history(from source, id events.SessionID) []byte {
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, id, 1)
	if err != nil {
		a.wrong("archive of %s: %v", id, err)
		return nil
	}
	list := from.commits
	at, change := a.IntN(len(list)), pick(a.forger, "valid", "payload", "payload", "payload", "actor", "left out", "twice", "end", "body")
	a.change = change
	seq := events.Seq(1)
	for i := range list {
		c := a.commitOf(list[i], id)
		times := 1
		if i == at {
			times = a.spoil(c, change)
		}
		if i > at && change == "end" {
			break
		}
		for range times {
			if err := w.Commit(events.Entry{Seq: seq, Commit: c}); err != nil {
				err = w.Commit(events.Entry{Seq: seq, Commit: a.commitOf(list[i], id)})
				if err != nil {
					a.wrong("commit %d of %s: %v", seq, id, err)
				}
			}
			seq++
		}
	}
	for i, body := range from.blobs {
		if change != "body" || i > 0 {
			err = errors.Join(err, w.Blob(body))
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		a.wrong("archive of %s: %v", id, err)
	}
	return file.Bytes()
}

// commitOf is a copy of a commit, for another session.
func (a *attacker) commitOf(e events.Entry, id events.SessionID) *events.Commit {
	c, err := events.Decode(e.Data)
	if err != nil {
		a.wrong("commit %d: %v", e.Seq, err)
		return &events.Commit{}
	}
	c.Session = id
	return c
}

// spoil changes a commit, and says how often the history has it.
func (a *attacker) spoil(c *events.Commit, change string) (times int) {
	switch change {
	case "payload":
		p := c.Events[a.IntN(len(c.Events))].Payload
		a.set(reflect.ValueOf(p).Elem(), 0)
	case "actor":
		c.Actor.ID = pick(a.forger, "", "\x1b[31mroot", "host", "a b")
	case "left out":
		return 0
	case "twice":
		return 2
	}
	return 1
}

// imports reads an archive and puts it into the fleet, as lash-node import does.
func (a *attacker) imports(file []byte) {
	read, err := events.ReadArchive(bytes.NewReader(file), 64<<20)
	var done archive.Restored
	if err == nil {
		done, err = archive.RestoreIdle(a.Ctx, a.Bus, read)
	}
	switch {
	case err == nil && done.Already:
		a.outcome("archive", "already")
	case err == nil:
		a.accepted("archive", "", 0, "", done.Session)
	case errors.Is(err, events.ErrMalformed), errors.Is(err, events.ErrFutureVersion), errors.Is(err, events.ErrInvalid), errors.Is(err, events.ErrTooLarge), errors.Is(err, events.ErrInvalidID):
		a.outcome("archive", "malformed")
	case errors.As(err, new(*archive.WorkError)):
		a.outcome("archive", "work")
	case errors.As(err, new(*archive.DifferentError)):
		a.outcome("archive", "different")
	default:
		a.wrong("archive, change %s: got %v, %v", a.change, err, errors.Is(err, bus.ErrNotFound))
	}
}
