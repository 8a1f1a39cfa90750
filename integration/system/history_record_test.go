package system

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// required are the required fields of each object of the record that audits exchange, with the type of each in JSON.
var required = map[string]map[string]string{
	"record":       {"version": "string", "id": "string", "session": "object"},
	"session":      {"session-id": "string", "agent-meta": "object", "entries": "array"},
	"agent-meta":   {"model-id": "string", "model-provider": "string"},
	"user":         {"type": "string"},
	"assistant":    {"type": "string"},
	"tool-call":    {"type": "string", "name": "string", "input": "any"},
	"tool-result":  {"type": "string", "output": "any"},
	"reasoning":    {"type": "string", "content": "any"},
	"system-event": {"type": "string", "event-type": "string"},
}

// optional are the types of the optional fields, where they are there.
var optional = map[string]map[string]string{
	"record":          {"created": "time", "recording-agent": "object"},
	"recording-agent": {"name": "string", "version": "string"},
	"session":         {"format": "string", "session-start": "time", "session-end": "time"},
	"agent-meta":      {"models": "array", "cli-name": "string", "cli-version": "string"},
	"user":            {"timestamp": "time", "id": "string", "parent-id": "string"},
	"assistant":       {"timestamp": "time", "id": "string", "model-id": "string", "parent-id": "string", "token-usage": "object"},
	"tool-call":       {"call-id": "string", "timestamp": "time", "id": "string"},
	"tool-result":     {"call-id": "string", "status": "status", "is-error": "boolean", "timestamp": "time", "id": "string"},
	"reasoning":       {"timestamp": "time", "id": "string"},
	"system-event":    {"data": "object", "timestamp": "time", "id": "string"},
	"token-usage":     {"input": "whole", "output": "whole", "cached": "whole", "reasoning": "whole", "total": "whole"},
}

// isOfType reports whether a value of JSON is of a type of the tables.
func isOfType(v any, kind string) bool {
	switch x := v.(type) {
	case string:
		_, err := time.Parse(time.RFC3339, x)
		return kind == "any" || kind == "string" || kind == "time" && err == nil || kind == "status" && (x == "success" || x == "error" || x == "completed")
	case float64:
		return kind == "any" || kind == "time" && x > 0 || kind == "whole" && x >= 0 && x == math.Trunc(x)
	case bool:
		return kind == "any" || kind == "boolean"
	case map[string]any:
		return kind == "any" || kind == "object"
	case []any:
		return kind == "any" || kind == "array"
	}
	return false
}

func checkObject(t *testing.T, name, at string, o map[string]any) {
	t.Helper()
	for field, kind := range required[name] {
		if !isOfType(o[field], kind) {
			t.Errorf("%s, required field %s: got %v, want type %s", at, field, o[field], kind)
		}
	}
	for field, kind := range optional[name] {
		if v, ok := o[field]; ok && !isOfType(v, kind) {
			t.Errorf("%s, optional field %s: got %v, want type %s", at, field, v, kind)
		}
	}
}

// checkRecord checks a record against the tables, and returns how often each type of entry occurs.
func checkRecord(t *testing.T, r map[string]any) map[string]int {
	t.Helper()
	checkObject(t, "record", "record", r)
	object := func(o map[string]any, field string) map[string]any {
		inner, _ := o[field].(map[string]any)
		return inner
	}
	checkObject(t, "recording-agent", "recording-agent", object(r, "recording-agent"))
	session := object(r, "session")
	checkObject(t, "session", "session", session)
	checkObject(t, "agent-meta", "agent-meta", object(session, "agent-meta"))
	counts := make(map[string]int)
	entries, _ := session["entries"].([]any)
	for i := range entries {
		e, _ := entries[i].(map[string]any)
		kind, _ := e["type"].(string)
		if required[kind] == nil || kind == "record" {
			t.Errorf("entry %d: got type %q, want one of the record's", i, kind)
		}
		counts[kind]++
		checkObject(t, kind, fmt.Sprintf("entry %d, %s", i, kind), e)
		if usage, ok := e["token-usage"].(map[string]any); ok {
			checkObject(t, "token-usage", fmt.Sprintf("usage of entry %d", i), usage)
		}
	}
	return counts
}

// historyArchived reads sessions: the archives of the repository, and recorded conversations.
func historyArchived(t *testing.T) []*events.Archive {
	t.Helper()
	var list []*events.Archive
	files, err := filepath.Glob("../../cmd/lash-replay/testdata/archives/*.lash")
	runtest.WantError(t, "archives", err, nil)
	for _, file := range files {
		data, err := os.ReadFile(file)
		runtest.WantError(t, "archive", err, nil)
		a, err := events.ReadArchive(bytes.NewReader(data), 1<<30)
		runtest.WantError(t, file, err, nil)
		list = append(list, a)
	}
	convs := recordingtest.Read(recordingtest.Make(1, recording.FormatChat, 30), recordingtest.Make(1, recording.FormatPi, 60))
	for i := range convs {
		list = append(list, convert(t, playback.NewPlan(events.SessionID(fmt.Sprintf("recorded-%d", i)), &convs[i])))
	}
	return list
}

func convert(t *testing.T, plan *playback.Plan) *events.Archive {
	t.Helper()
	c, err := playback.Open(harness.Context(t), playback.StageConfig{})
	runtest.WantError(t, "converter", err, nil)
	defer c.Close()
	a, err := c.Convert(harness.Context(t), plan)
	runtest.WantError(t, "convert", err, nil)
	return a
}

// TestRecord signs the record of each session, verifies it with a library of others, checks its fields against the tables
// of the record, and makes a session of it again: the conversation is equal.
func TestRecord(t *testing.T) {
	t.Parallel()
	testRecord(t, "")
}

// TestRecordByOthers also verifies it with a library in JavaScript.
func TestRecordByOthers(t *testing.T) {
	t.Parallel()
	testRecord(t, runtest.NPM(t))
}

func testRecord(t *testing.T, modules string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	runtest.WantError(t, "key", err, nil)
	seen := make(map[string]int)
	for _, a := range historyArchived(t) {
		d, err := exchange.Read(t.Context(), a.Log, archiveBodies(a.Blobs), a.Session)
		runtest.WantError(t, "read", err, nil)
		r := exchange.NewRecord(d, exchange.RecordOptions{Program: "test", Version: "1"})
		var line bytes.Buffer
		runtest.WantError(t, "JSON", exchange.RecordJSON(&line, r), nil)
		var asJSON map[string]any
		runtest.WantError(t, "JSON", json.Unmarshal(line.Bytes(), &asJSON), nil)
		head, _ := asJSON["head"].(map[string]any)
		runtest.DeepEqual(t, "root of the head", head["root"], any(rootOf(t, a)))
		runtest.DeepEqual(t, "size of the head", head["size"], any(float64(d.Commits)))
		for kind, n := range checkRecord(t, asJSON) {
			seen[kind] += n
		}
		signed, err := exchange.SignRecord(r, "tester", private)
		runtest.WantError(t, "sign", err, nil)
		if modules != "" {
			verifyByOthers(t, modules, a.Session, signed, public, asJSON)
		}
		for name, data := range map[string][]byte{"JSON": line.Bytes(), "COSE": lineOf(t, signed)} {
			convs, err := recording.Read("record", bytes.NewReader(data))
			runtest.WantError(t, name, err, nil)
			again := convert(t, playback.NewPlan(a.Session, &convs[0]))
			diff, err := playback.Unlike(t.Context(), historyOf(t, a), historyOf(t, again))
			if err != nil || diff != "" {
				t.Errorf("conversation of %s after its record as %s: got %q, %v, want no difference", a.Session, name, diff, err)
			}
		}
	}
	for _, kind := range []string{"user", "assistant", "tool-call", "tool-result", "system-event"} {
		if seen[kind] == 0 {
			t.Errorf("entries of type %s: got none, want some", kind)
		}
	}
}

// rootOf is the Merkle tree's root of a history's commits, by another implementation than that of package proof.
func rootOf(t *testing.T, a *events.Archive) string {
	t.Helper()
	var stored []tlog.Hash
	n := int64(0)
	read := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		list := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			list[i] = stored[at]
		}
		return list, nil
	})
	for entry, err := range a.Log.Read(t.Context(), a.Session, 1) {
		runtest.WantError(t, "read", err, nil)
		leaf, _, err := events.HashOf(entry.Commit)
		runtest.WantError(t, "leaf", err, nil)
		more, err := tlog.StoredHashesForRecordHash(n, tlog.Hash(leaf), read)
		runtest.WantError(t, "hashes", err, nil)
		stored, n = append(stored, more...), n+1
	}
	root, err := tlog.TreeHash(n, read)
	runtest.WantError(t, "root", err, nil)
	return hex.EncodeToString(root[:])
}

func lineOf(t *testing.T, signed []byte) []byte {
	t.Helper()
	line, err := exchange.RecordLine(signed)
	runtest.WantError(t, "line of a signed record", err, nil)
	return line
}

func historyOf(t *testing.T, a *events.Archive) playback.History {
	t.Helper()
	s, err := follow.At(t.Context(), a.Log, archiveBodies(a.Blobs), a.Session, math.MaxUint64)
	runtest.WantError(t, "fold", err, nil)
	return playback.History{State: s, Blobs: archiveBodies(a.Blobs)}
}

// verifyByOthers verifies a signed record with a library from npm, and compares headers and payload.
func verifyByOthers(t *testing.T, modules string, id events.SessionID, signed []byte, public ed25519.PublicKey, want map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record.cose")
	runtest.WantError(t, "write", os.WriteFile(file, signed, 0o600), nil)
	run := func(file string) ([]byte, error) {
		cmd := exec.CommandContext(harness.Context(t), "node", "testdata/verify-record.mjs", modules, file, hex.EncodeToString(public))
		cmd.Stderr = os.Stderr
		return cmd.Output()
	}
	out, err := run(file)
	if err != nil {
		t.Fatalf("verify the record of %s: %v", id, err)
	}
	var got struct {
		Protected, Unprotected map[string]any
		Record                 map[string]any
	}
	runtest.WantError(t, "output", json.Unmarshal(out, &got), nil)
	runtest.DeepEqual(t, "payload", got.Record, want)
	checkRecord(t, got.Record)
	runtest.DeepEqual(t, "algorithm, EdDSA", got.Protected["1"], any(float64(-8)))
	runtest.DeepEqual(t, "content type", got.Protected["3"], any("application/cbor"))
	runtest.DeepEqual(t, "key id", got.Protected["4"], any(map[string]any{"hex": hex.EncodeToString([]byte(exchange.KeyID(public)))}))
	runtest.DeepEqual(t, "claims: issuer and subject", got.Protected["15"], any(map[string]any{"1": "tester", "2": string(id)}))
	trace, _ := got.Unprotected["100"].(map[string]any)
	for field, value := range map[string]string{"session-id": string(id), "agent-vendor": "lash", "trace-format": "ietf-vac-v3.0"} {
		runtest.DeepEqual(t, "trace metadata "+field, trace[field], any(value))
	}
	if !isOfType(trace["timestamp-start"], "time") || !isOfType(trace["timestamp-end"], "time") {
		t.Errorf("times of the trace metadata: got %v, want RFC 3339", trace)
	}
	broken := bytes.Clone(signed)
	broken[len(broken)-100] ^= 1 // in the payload, before the signature of 64 bytes
	runtest.WantError(t, "write", os.WriteFile(file, broken, 0o600), nil)
	if out, err := run(file); err == nil {
		t.Errorf("a changed record of %s: got %d bytes and no error, want a refusal", id, len(out))
	}
}

// archiveBodies are the bodies of an archive. Nothing is stored in it.
type archiveBodies map[string][]byte

func (m archiveBodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := m[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

func (m archiveBodies) PutBlob(context.Context, []byte) (events.BlobRef, error) {
	return events.BlobRef{}, bus.ErrFull
}
