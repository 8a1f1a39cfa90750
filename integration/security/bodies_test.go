package security

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// marker is in every body of the sessions of these tests, and in nothing else.
const marker = "zqMARKERq7wK"

// said is a body with the marker, of so many bytes.
func said(what string, size int) string {
	text := what + " " + marker + " "
	return text + strings.Repeat(marker+"-", max(size-len(text), 0)/len(marker))
}

// bodySessions runs two sessions whose bodies all have the marker: one stays hot, the other is archived.
func bodySessions(t *testing.T, server *busembed.Server, on *bus.Bus) (b *harness.System, hot, cold events.SessionID) {
	t.Helper()
	var script []harness.Step
	for range 2 {
		for range 12 {
			script = append(script,
				harness.Reply(harness.Call("c1", "look", `{"at":"`+said("arguments", 0)+`"}`), harness.Call("c2", "fail", `{"at":"`+said("arguments", 60_000)+`"}`)),
				harness.Reply(harness.Text(said("answer", 0))))
		}
		script = append(script, harness.Reply(harness.Text(said("large answer", 100_000))))
	}
	b = harness.StartWith(t, server, on, script...)
	plug := harness.PluginOf("bodies", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "look", Description: said("description", 0)}, func(context.Context, plugin.Call, struct{ At string }) (string, error) {
			return said("result", 70_000), nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "fail"}, func(context.Context, plugin.Call, struct{ At string }) (string, error) {
			return "", errors.New(said("error", 0))
		})
	})
	b.StartNode(plug)
	run := func() events.SessionID {
		id := b.Open(api.CreateRequest{Labels: map[string]string{"label": said("label", 0)}, Config: events.Config{Instructions: said("instructions", 0)}})
		ref, err := b.StoreBlob(b.Ctx, id, []byte(said("attachment", 300_000)))
		runtest.WantError(t, "attach", err, nil)
		_, err = b.ReadBlob(b.Ctx, id, ref.Digest)
		runtest.WantError(t, "read the attachment", err, nil)
		for n := range 13 {
			b.RunTurn(id, events.TurnID("t"+string(rune('a'+n))), harness.Text(said("question", 0)))
		}
		runtest.WantError(t, "dead letter", on.PutDeadLetter(b.Ctx, &bus.DeadLetter{Session: id, Error: said("dead", 0), Worker: "w"}), nil)
		runtest.WantError(t, "trial", on.PutTrial(b.Ctx, bus.TrialKey{Session: id, Of: bus.TrialFold}, bus.Trial{Count: 1, Error: said("trial", 0)}), nil)
		runtest.WantError(t, "event for a plugin", on.StorePluginEvent(b.Ctx, "observer", string(id), []byte(said("event", 0))), nil)
		runtest.WantError(t, "delta", on.PublishDelta(id, "ta", []byte(said("delta", 0))), nil)
		runtest.WantError(t, "project", follow.NewProjector(on, nil).Project(b.Ctx, id), nil)
		return id
	}
	if _, err := on.PluginEvents(b.Ctx, "observer"); err != nil {
		t.Fatal(err)
	}
	hot, cold = run(), run()
	_, err := follow.Save(b.Ctx, on, b.StateOf(hot))
	runtest.WantError(t, "snapshot", err, nil)
	_, err = b.Fork(b.Ctx, hot, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	done, err := follow.NewArchiver(on, follow.ArchiverConfig{}).Archive(b.Ctx, cold)
	runtest.WantError(t, "archive", err, nil)
	runtest.Equal(t, "cold", done, true)
	return b, hot, cold
}

// encodings of the marker: as it is, in hex, and in base64 at each offset.
func markers() [][]byte {
	list := [][]byte{[]byte(marker), []byte(hex.EncodeToString([]byte(marker)))}
	for offset := range 3 {
		whole := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + marker + "xxx"))
		list = append(list, []byte(whole[4:16])) // the digits that depend on the marker alone
	}
	return list
}

// unzip returns what the zstd frames in data have.
func unzip(data []byte) (all [][]byte) {
	for at := 0; ; {
		i := bytes.Index(data[at:], []byte("\x28\xb5\x2f\xfd"))
		if i < 0 {
			return all
		}
		at += i + 4
		d, err := zstd.NewReader(bytes.NewReader(data[at-4:]), zstd.WithDecoderConcurrency(1))
		if err != nil {
			continue
		}
		var out bytes.Buffer
		_, _ = out.ReadFrom(d) // ends at the first byte that is no frame
		d.Close()
		all = append(all, out.Bytes())
	}
}

// places counts, by the name of a place, the data that have the marker.
type places map[string]int

func (p places) add(place string, data []byte) {
	for _, text := range append(unzip(data), data) {
		for _, m := range markers() {
			if bytes.Contains(text, m) {
				p[place]++
			}
		}
	}
}

// storedPlaces searches every message of every stream, and every file of the store.
func storedPlaces(t *testing.T, b *harness.System, dir string) (found places, streams []string) {
	t.Helper()
	found = places{}
	js := b.JetStream()
	for info := range js.ListStreams(b.Ctx).Info() {
		name := info.Config.Name
		streams = append(streams, name)
		stream, err := js.Stream(b.Ctx, name)
		runtest.WantError(t, "stream", err, nil)
		for seq := info.State.FirstSeq; seq > 0 && seq <= info.State.LastSeq; seq++ {
			msg, err := stream.GetMsg(b.Ctx, seq)
			if err != nil {
				continue // deleted
			}
			found.add(name, msg.Data)
			for key, values := range msg.Header {
				found.add(name+" headers", []byte(key+strings.Join(values, " ")))
			}
			found.add(name+" subjects", []byte(msg.Subject))
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // the server may remove a file meanwhile
		}
		if data, err := os.ReadFile(path); err == nil {
			found.add("files", data)
		}
		return nil
	})
	runtest.WantError(t, "files", err, nil)
	return found, streams
}

// TestNoBodyIsStoredPlain runs sessions whose bodies all have a marker, and searches all that the server stores for it.
// Without keys the same search finds it in every place that has bodies.
func TestNoBodyIsStoredPlain(t *testing.T) {
	t.Parallel()
	for name, encrypted := range map[string]bool{"encrypted": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var keys *bodykey.Keys
			if encrypted {
				keys = bustest.Keys(t)
			} else if bustest.Encrypted() {
				t.Skip("every bus of this run has keys")
			}
			dir := t.TempDir()
			server := bustest.Server(t, busembed.Config{StoreDir: dir})
			b, hot, cold := bodySessions(t, server, bustest.OpenWith(t, server, keys))
			found, streams := storedPlaces(t, b, dir)
			if encrypted {
				if len(found) > 0 || len(streams) < 10 {
					t.Errorf("plain bodies: got %v in %d streams, want none in 10 or more", found, len(streams))
				}
				return
			}
			for _, place := range []string{
				"lash-s-" + string(hot), "lash-archive", "lash-dead", "lash-delta", "lash-plugin-events", "files",
				"OBJ_lash-blobs", "KV_lash-sessions", "KV_lash-snapshots", "KV_lash-index", "KV_lash-catalog",
			} {
				if found[place] == 0 {
					t.Errorf("%s: the search finds no marker (archived is %s)", place, cold)
				}
			}
		})
	}
}

// TestForgottenKey opens a store without its key, and with another one.
func TestForgottenKey(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, hot, cold := bodySessions(t, server, bustest.OpenWith(t, server, bustest.Keys(t)))
	last := b.LastSeq(hot)
	other, err := bodykey.New()
	runtest.WantError(t, "another key", err, nil)
	_, err = bus.Open(b.Ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Keys: other})
	runtest.WantError(t, "another key", err, bodykey.ErrWrong)
	on := openWithout(t, server)
	h := b.NewHost(on)
	for what, do := range map[string]func() error{
		"state":  func() error { _, err := h.State(b.Ctx, hot); return err },
		"view":   func() error { _, err := h.View(b.Ctx, cold); return err },
		"submit": func() error { _, err := h.Submit(b.Ctx, hot, harness.TurnRequest("late", "go")); return err },
		"fork":   func() error { _, err := h.Fork(b.Ctx, hot, api.CreateRequest{}); return err },
		"create": func() error { _, err := h.Create(b.Ctx, api.CreateRequest{}); return err },
		"blob":   func() error { _, err := h.StoreBlob(b.Ctx, "", []byte("x")); return err },
	} {
		if err := do(); !errors.Is(err, events.ErrLocked) || !strings.Contains(err.Error(), "which is not here") {
			t.Errorf("%s: got %v, want the missing key", what, err)
		}
	}
	runtest.Equal(t, "commits", b.LastSeq(hot), last)
	for _, id := range []events.SessionID{hot, cold} {
		var tree, whole proof.Tree
		for e, err := range on.Log().Read(b.Ctx, id, 1) {
			runtest.WantError(t, "read", err, nil)
			if e.Commit.Locked() == 0 {
				t.Errorf("sequence %d of %s can be read without the key", e.Seq, id)
			}
			tree.Append(events.CommitHash(e.Data))
		}
		for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
			runtest.WantError(t, "read with the key", err, nil)
			leaf, _, err := events.HashOf(e.Commit) // of what a node appended
			runtest.WantError(t, "leaf", err, nil)
			whole.Append(leaf)
		}
		runtest.DeepEqual(t, "tree of "+string(id), tree, whole)
	}
	done, err := follow.NewArchiver(on, follow.ArchiverConfig{}).Archive(b.Ctx, hot)
	runtest.WantError(t, "archive", err, events.ErrLocked)
	runtest.Equal(t, "archived", done, false)
	runtest.Equal(t, "answer after it", b.StateOf(hot).Seq, last)
	_, err = h.Erase(b.Ctx, cold, "asked to")
	runtest.WantError(t, "erase", err, nil)
	if _, err := b.State(b.Ctx, cold); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("erased: got %v, want an erased error", err)
	}
}

// openWithout opens a bus without keys, as a node that was started without the file.
func openWithout(t *testing.T, server *busembed.Server) *bus.Bus {
	t.Helper()
	on, err := bus.Open(harness.Context(t), bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.WantError(t, "open without keys", err, nil)
	t.Cleanup(on.Close)
	return on
}
