package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// TestLongImportRecordings imports recordings of all kinds, exports them as archives and in their own formats, imports
// these, and compares: archives are the same bytes, conversations have the same messages, calls and results.
func TestLongImportRecordings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := filepath.Join(dir, "first")
	const chat, pi = recording.FormatChat, recording.FormatPi
	convs := slices.Concat(recordingtest.Demo(), recordingtest.Make(0, chat, 20), recordingtest.Make(0, pi, 40))
	if runtest.Long() {
		convs = slices.Concat(convs, recordingtest.Each(chat), recordingtest.Each(pi), recordingtest.Large())
		for seed := uint64(2); seed < 50; seed++ {
			convs = slices.Concat(convs, recordingtest.Make(seed, chat, 40), recordingtest.Make(seed, pi, 80))
		}
	}
	recordings := writeFile(t, dir, "recordings.jsonl", convs)
	ofPi := make(map[events.SessionID]bool)
	sources, err := (&importCmd{Files: []string{recordings}}).read()
	runtest.NoError(t, err)
	for _, src := range sources {
		ofPi[src.Session] = src.Format == "pi"
	}
	imports(t, first, recordings)
	b := openStore(t, first)
	var chats, sessions bytes.Buffer
	var ids []events.SessionID
	kept := make(map[events.SessionID][]byte)
	for id, err := range b.Sessions(t.Context()) {
		runtest.NoError(t, err)
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var archives, formats []string
	for _, id := range ids {
		var file bytes.Buffer
		_, err = archive.Write(t.Context(), b.Log(), b, id, &file)
		runtest.NoError(t, err)
		kept[id] = file.Bytes()
		archives = append(archives, writeFile(t, dir, string(id)+".lash", file.Bytes()))
		d, err := exchange.Read(t.Context(), b.Log(), b, id)
		runtest.NoError(t, err)
		write, into := exchange.Chat, &chats
		if ofPi[id] {
			write, into = exchange.Pi, &sessions // a chat has no outcomes
		}
		_, err = write(into, d)
		runtest.NoError(t, err)
	}
	for name, data := range map[string][]byte{"chats.jsonl": chats.Bytes(), "pi.jsonl": sessions.Bytes()} {
		if len(data) > 0 {
			formats = append(formats, writeFile(t, dir, name, data))
		}
	}
	second, third := filepath.Join(dir, "second"), filepath.Join(dir, "third")
	imports(t, second, archives...)
	imports(t, third, formats...)
	copied, converted := openStore(t, second), openStore(t, third)
	for _, id := range ids {
		var file bytes.Buffer
		if _, err := archive.Write(t.Context(), copied.Log(), copied, id, &file); err != nil || !bytes.Equal(file.Bytes(), kept[id]) {
			t.Errorf("archive of %s after its import: got %d bytes, %v, want the %d bytes that were imported", id, file.Len(), err, len(kept[id]))
		}
		diff, err := playback.Unlike(t.Context(), stored(t, b, id), stored(t, converted, id))
		if err != nil || diff != "" {
			t.Errorf("conversation of %s after export and import: got %q, %v, want no difference", id, diff, err)
		}
	}
}

func writeFile(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	runtest.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

func imports(t *testing.T, store string, files ...string) {
	t.Helper()
	out, errs, code := lashNode(t, append([]string{"import", "--store", store}, files...)...)
	if code != exitOK || strings.Contains(out, "already") {
		t.Fatalf("import: got code %d, %s%s, want all imported", code, out, errs)
	}
	if out, errs, code = lashNode(t, append([]string{"import", "--store", store}, files...)...); code != exitOK || strings.Count(out, "is there already") != strings.Count(out, "\n") {
		t.Fatalf("import again: got code %d, %s%s, want all there already", code, out, errs)
	}
}

func openStore(t *testing.T, dir string) *bus.Bus {
	t.Helper()
	server, err := busembed.Start(busembed.Config{StoreDir: dir})
	runtest.NoError(t, err)
	t.Cleanup(server.Stop)
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

func stored(t *testing.T, b *bus.Bus, id events.SessionID) playback.History {
	t.Helper()
	s, err := follow.Whole(t.Context(), b, id)
	runtest.NoError(t, err)
	return playback.History{State: s, Blobs: b}
}

// TestLongImportIntoRunningNode imports into the server of a node that runs. The imported session continues there.
func TestLongImportIntoRunningNode(t *testing.T) {
	t.Parallel()
	node := served(t, "--store", t.TempDir(), "--listen", "127.0.0.1:0")
	file := filepath.Join("..", "lash-replay", "testdata", "archives", "answered.lash")
	out, errs, code := lashNode(t, "import", "--store", node.store, file, "--json")
	if code != exitOK || !strings.Contains(out, `"session": "answered"`) || !strings.Contains(out, `"last": 8`) {
		t.Fatalf("import: got code %d, %s%s", code, out, errs)
	}
	h := clientOf(t, node)
	page, err := h.Sessions(limited(t), api.SessionQuery{})
	if err != nil || len(page.Sessions) != 1 || page.Sessions[0].ID != "answered" {
		t.Errorf("sessions: got %+v, %v, want the imported one", page, err)
	}
	_, err = h.AppendNodes(limited(t), "answered", api.AppendNodesRequest{Nodes: []api.AppendNode{{
		Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "more"}}},
	}}})
	runtest.WantError(t, "append to the imported session", err, nil)
	if out, errs, code = lashNode(t, "import", "--store", node.store, file); code != exitOK || !strings.Contains(out, "is there already") {
		t.Errorf("import of a session that continued: got code %d, %s%s, want that it is there", code, out, errs)
	}
	node.stop(t, syscall.SIGTERM)
}
