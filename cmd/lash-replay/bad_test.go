package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
)

// badHistory makes commits that no node appends.
type badHistory struct {
	state *projector.State
	list  []*events.Commit
}

// add folds a commit, so that later events can refer to the state.
func (h *badHistory) add(list ...events.Event) *events.Commit {
	c := &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: "bad", At: 1_700_000_000_000 + events.Millis(len(h.list)),
		Actor: events.Actor{Kind: events.ActorNode, ID: "w1"}, Events: list,
	}
	h.list = append(h.list, c)
	if err := h.state.Apply(events.Entry{Seq: h.state.Seq + 1, Commit: c}); err != nil {
		panic(err)
	}
	return c
}

// turn adds a whole turn. change modifies its reply before the fold.
func (h *badHistory) turn(id events.TurnID, change func(*events.ModelReplied)) {
	h.add(events.Of(id, &events.TurnRequested{Input: events.TurnInput{Parts: textParts("hello")}}), events.Of(id, &events.TurnStarted{Attempt: 1, Worker: "w1"}))
	prompt, err := h.state.Prompt()
	if err != nil {
		panic(err)
	}
	reply := &events.ModelReplied{Prompt: prompt.Ref, Parts: textParts("hi"), Stop: events.StopEnd}
	change(reply)
	h.add(events.Of(id, reply), events.Of(id, &events.TurnCompleted{End: events.EndFinished}))
}

// makeBad WHAT FILE writes an archive of a history with one error.
func makeBad(args []string) error {
	h := &badHistory{state: projector.New("bad")}
	h.add(events.Of("", &events.SessionOpened{}))
	accept := func(*events.ModelReplied) {}
	switch args[0] {
	case "nothing":
		h.turn("t1", accept)
	case "unknown-kind":
		h.turn("t1", accept)
		h.add(events.Event{Kind: "later.happened", V: 3, Raw: []byte("\x81\xa1a\x01")})
	case "commit-id":
		h.turn("t1", accept)
		h.list[2].ID = h.list[1].ID
	case "no-ulid":
		h.turn("t1", accept)
		h.list[2].ID = "commit-2"
	case "prompt":
		h.turn("t1", accept)
		h.turn("t2", func(r *events.ModelReplied) { r.Prompt.Digest = strings.Repeat("0", 64) })
	case "prompt-leaf":
		h.turn("t1", func(r *events.ModelReplied) { r.Prompt.Leaf = "nobody" })
	case "decision":
		h.turn("t1", accept)
		last := h.list[len(h.list)-1]
		last.Events[len(last.Events)-1] = events.Of("t1", &events.TurnCompleted{End: events.EndIncomplete})
	case "state":
		h.turn("t1", accept)
		h.add(events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{ID: "u-t1", Kind: events.NodePlugin, Type: "note"}}}))
	case "blob":
		ref := events.BlobRef{Digest: strings.Repeat("ab", 32), Size: 5}
		h.turn("t1", func(r *events.ModelReplied) { r.Parts[0] = events.Part{Kind: events.PartText, Blob: ref} })
	default:
		return fmt.Errorf("make-bad %s: no such thing", args[0])
	}
	return writeArchive(args[1], h.list)
}

func writeArchive(path string, list []*events.Commit) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := events.NewArchiveWriter(f, "bad", 1)
	if err != nil {
		return err
	}
	for i, c := range list {
		if err := w.Commit(events.Entry{Seq: events.Seq(i + 1), Commit: c}); err != nil {
			return err
		}
		if _, stored := c.Events[0].Payload.(*events.BodyStored); stored {
			if err := w.Blob([]byte(storedBody)); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.Close(), f.Close())
}

// storedRow is a snapshot's row, with the fields of package follow.
type storedRow struct {
	Seq    events.Seq     `msgpack:"q"`
	Digest string         `msgpack:"d"`
	Head   []byte         `msgpack:"h,omitempty"`
	Blob   events.BlobRef `msgpack:"b,omitempty"`
}

// breakStore WHAT DIR damages a store as a bug or a bad disk would.
func breakStore(args []string) error {
	server, b, err := openTestStore(args[1], busembed.Config{})
	if err != nil {
		return err
	}
	defer server.Stop()
	defer b.Close()
	ctx := context.Background()
	switch args[0] {
	case "snapshot": // a valid row that differs from the fold of the history
		return changeRow(ctx, b, "demo", func(r *storedRow) error {
			s, err := projector.Restore(r.Head)
			if err != nil {
				return err
			}
			s.Config.Model, s.Turns = "another", s.Turns+1
			r.Head, _, err = s.Snapshot()
			r.Digest = projector.RefOf(r.Head).Digest
			return err
		})
	case "row":
		return changeRow(ctx, b, "demo", func(r *storedRow) error {
			r.Digest = strings.Repeat("0", 64)
			return nil
		})
	case "ahead":
		return changeRow(ctx, b, "demo", func(r *storedRow) error {
			s, err := projector.Restore(r.Head)
			if err != nil {
				return err
			}
			s.Seq, r.Seq = 1000, 1000
			s.Proof.Tree = proof.Tree{Before: 1000, Edge: make([]byte, 6*32)} // 1000 has six bits
			r.Head, _, err = s.Snapshot()
			r.Digest = projector.RefOf(r.Head).Digest
			return err
		})
	case "segment":
		return loseSegment(ctx, b)
	}
	return fmt.Errorf("break-store %s: no such thing", args[0])
}

func changeRow(ctx context.Context, b *bus.Bus, id events.SessionID, change func(*storedRow) error) error {
	row, err := b.Snapshots().Get(ctx, id)
	if err != nil {
		return err
	}
	var r storedRow
	if err := events.DecodePayload(row.Value, &r); err != nil {
		return err
	}
	if err := change(&r); err != nil {
		return err
	}
	value, err := events.EncodePayload(&r)
	if err != nil {
		return err
	}
	_, err = b.Snapshots().Put(ctx, id, value, row.Revision)
	return err
}

// loseSegment deletes a segment of the session long with the NATS library, because the bus deletes none.
func loseSegment(ctx context.Context, b *bus.Bus) error {
	row, err := b.Snapshots().Get(ctx, "long")
	if err != nil {
		return err
	}
	var r storedRow
	if err := events.DecodePayload(row.Value, &r); err != nil {
		return err
	}
	s, err := projector.Restore(r.Head)
	if err != nil {
		return err
	}
	return deleteBlob(ctx, b, s.Missing()[0])
}

func deleteBlob(ctx context.Context, b *bus.Bus, ref events.BlobRef) error {
	js, err := jetstream.New(b.Conn())
	if err != nil {
		return err
	}
	blobs, err := js.ObjectStore(ctx, "lash-blobs")
	if err != nil {
		return err
	}
	return blobs.Delete(ctx, ref.Digest)
}

// tamper FROM TO copies a file and changes one bit in its middle.
func tamper(args []string) error {
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	data[len(data)/2] ^= 1
	return os.WriteFile(args[1], data, 0o600)
}
