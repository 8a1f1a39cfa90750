package archive_test

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/archive"
)

// bodies are blobs by digest.
type bodies map[string][]byte

func (b bodies) put(body string) events.BlobRef {
	ref := projector.RefOf([]byte(body))
	b[ref.Digest] = []byte(body)
	return ref
}

func (b bodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := b[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

func exportLog(t *testing.T, list ...[]events.Event) *events.MemLog {
	t.Helper()
	log := &events.MemLog{}
	for i, e := range list {
		c := &events.Commit{ID: events.CommitID(rune('a' + i)), Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorNode}, Events: e}
		_, err := log.Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
	return log
}

func TestExport(t *testing.T) {
	t.Parallel()
	blobs := bodies{}
	one, two := blobs.put("one"), blobs.put("two two")
	reply := &events.ModelReplied{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Blob: one}, {Kind: events.PartText, Blob: one}}}
	results := &events.ToolReturned{Results: []events.ToolResult{{Blob: two, Attachments: []events.Part{{Kind: events.PartAttachment, Blob: one}}}}}
	log := exportLog(t,
		[]events.Event{events.Of("", &events.SessionOpened{})},
		[]events.Event{events.Of("t1", reply), events.Of("t1", results)},
		[]events.Event{eventstest.Unknown("", "later.happened", []byte{0x80})},
	)
	var file bytes.Buffer
	got, err := archive.Write(t.Context(), log, blobs, "s1", &file)
	runtest.NoError(t, err)
	want := archive.Contents{First: 1, Last: 3, Commits: 3, Events: 4, Blobs: 2, BlobBytes: 10, Unknown: 1}
	runtest.Equal(t, "got", got, want)
	a, err := events.ReadArchive(&file, 1<<30)
	runtest.NoError(t, err)
	if !reflect.DeepEqual(bodies(a.Blobs), blobs) {
		t.Errorf("got blobs %q, want %q", a.Blobs, blobs)
	}
	if !reflect.DeepEqual(commitsOf(t, a.Log), commitsOf(t, log)) {
		t.Error("the archive holds other commits than the log")
	}
}

func commitsOf(t *testing.T, log events.Log) []events.Entry {
	t.Helper()
	var list []events.Entry
	for e, err := range log.Read(t.Context(), "s1", 1) {
		runtest.NoError(t, err)
		list = append(list, e)
	}
	return list
}

func TestExportRefuses(t *testing.T) {
	t.Parallel()
	gone := events.Part{Kind: events.PartText, Blob: events.BlobRef{Digest: "00", Size: 1}}
	log := exportLog(t, []events.Event{events.Of("", &events.SessionOpened{})},
		[]events.Event{events.Of("", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: []events.Part{gone}})})
	_, err := archive.Write(t.Context(), log, bodies{}, "s1", &bytes.Buffer{})
	runtest.WantError(t, "missing blob", err, bus.ErrNotFound)
	_, err = archive.Write(t.Context(), log, bodies{}, "s2", &bytes.Buffer{})
	runtest.WantError(t, "no session", err, events.ErrNoSession)
}
