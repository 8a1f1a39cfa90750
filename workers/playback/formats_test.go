package playback_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// number numbers the sessions of [bundle.again].
var number atomic.Int64

// TestSizedFormats plays recordings of all kinds with eight workers, writes the histories as files of other programs, plays these,
// and compares the conversations: every message, call and result is equal. A chat has no outcomes of results, so recordings of
// pi go through pi's format.
func TestSizedFormats(t *testing.T) {
	t.Parallel()
	formats(t, recordingtest.Each(recording.FormatChat), recordingtest.Each(recording.FormatPi))
}

// TestRecordFormat does the same with one recording, and the record that audits exchange.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	formats(t, recordingtest.Make(1, recording.FormatPi, 40))
}

// TestLongFormats does the same with recordings that are written by hand, and with those of many seeds, on a server for each fifty.
func TestLongFormats(t *testing.T) {
	t.Run("written", func(t *testing.T) { formats(t, recordingtest.Written()) })
	const each = 50
	for from := uint64(0); from < 100; from += each {
		t.Run(fmt.Sprintf("from_%d", from), func(t *testing.T) { formats(t, made(from, from+each)...) })
	}
}

// made are recordings of seeds.
func made(from, to uint64) (files [][]byte) {
	for seed := from; seed < to; seed++ {
		files = append(files, recordingtest.Make(seed, recording.FormatChat, 20), recordingtest.Make(seed, recording.FormatPi, 40))
	}
	return files
}

func formats(t *testing.T, files ...[]byte) {
	t.Helper()
	b := setup(t)
	plans := b.plans("played", recordingtest.Read(files...))
	b.work(8)
	b.playAll(t, plans, 8)
	for _, plan := range plans {
		id := string(plan.Conv.Format) + "_" + plan.Conv.ID
		again := func(format recording.Format, write writer) {
			t.Run(string(format)+"_of_"+id, func(t *testing.T) {
				t.Parallel()
				b.again(t, plan, format, write)
			})
		}
		again(plan.Conv.Format, map[recording.Format]writer{recording.FormatChat: exchange.Chat, recording.FormatPi: exchange.Pi}[plan.Conv.Format])
		if runtest.Long() || len(plans) == 1 {
			again(recording.FormatRecord, asRecord)
		}
		says := slices.ContainsFunc(plan.Conv.Entries, func(e recording.Entry) bool { return e.Kind != recording.EntrySystem })
		if runtest.Long() && plan.Conv.Format == recording.FormatChat && says { // pi's format has no system messages, and without a message it is refused
			again(recording.FormatPi, exchange.Pi) // holds more than a chat
		}
	}
}

type writer func(io.Writer, *exchange.Document) (*exchange.Losses, error)

// asRecord writes a record, whose form in CBOR reads like that in JSON.
func asRecord(w io.Writer, d *exchange.Document) (*exchange.Losses, error) {
	record := exchange.NewRecord(d, exchange.RecordOptions{})
	var asJSON bytes.Buffer
	err := exchange.RecordJSON(&asJSON, record)
	data, errCBOR := exchange.RecordCBOR(record)
	line, errLine := exchange.RecordLine(data)
	fromCBOR, errRead := recording.Read("record", bytes.NewReader(line))
	fromJSON, errJSON := recording.Read("record", &asJSON)
	if err := errors.Join(err, errCBOR, errLine, errRead, errJSON); err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(fromCBOR, fromJSON) {
		return nil, fmt.Errorf("a record reads from CBOR as %+v, from JSON as %+v", fromCBOR, fromJSON)
	}
	_, err = w.Write(line)
	return &exchange.Losses{}, err
}

// again writes a played session as a file, plays the file as another session, and compares the two.
func (b *bundle) again(t *testing.T, plan *playback.Plan, format recording.Format, write writer) {
	t.Helper()
	d, err := exchange.Read(t.Context(), b.bus.Log(), b.bus, plan.Session)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	lost, err := write(&file, d)
	if err != nil {
		t.Fatal(err)
	}
	conv := read(t, "again.jsonl", file.Bytes())
	if len(conv) != 1 || conv[0].Format != format || conv[0].ID != string(plan.Session) {
		t.Fatalf("written file: got %d conversations, first %s of format %s, want one", len(conv), conv[0].ID, conv[0].Format)
	}
	second := b.plans(fmt.Sprintf("again-%d", number.Add(1)), conv)[0]
	b.play(t, second)
	before, err := b.host.State(t.Context(), plan.Session)
	if err != nil {
		t.Fatal(err)
	}
	after, err := b.host.State(t.Context(), second.Session)
	if err != nil {
		t.Fatal(err)
	}
	diff, err := playback.Unlike(t.Context(), playback.History{State: before, Blobs: b.bus}, playback.History{State: after, Blobs: b.bus})
	if err != nil {
		t.Fatal(err)
	}
	told := fmt.Sprint(lost.List())
	inJSON := strings.Contains(told, "system messages") || strings.Contains(told, "arguments of calls") // what pi's format cannot hold of a chat
	if diff != "" && !inJSON {
		t.Errorf("%s as %s and back: %s; told losses %s", plan.Session, format, diff, told)
	}
}
