package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/keyring"
)

// eraseSigned SESSION DIR erases a session with the keys of the store.
func eraseSigned(args []string) error {
	keys, err := keyring.Load(keyring.Dir(args[1]), time.Now())
	if err != nil {
		return err
	}
	_, h, end, err := openTestHost(args[1], keys.Signer)
	if err == nil {
		defer end()
		_, err = h.Erase(context.Background(), events.SessionID(args[0]), "asked to")
	}
	return err
}

// redactSigned SESSION DIR WHAT... closes a session and redacts it with the keys of the store.
func redactSigned(args []string) error {
	keys, err := keyring.Load(keyring.Dir(args[1]), time.Now())
	if err != nil {
		return err
	}
	_, h, end, err := openTestHost(args[1], keys.Signer)
	if err != nil {
		return err
	}
	defer end()
	ctx, id := context.Background(), events.SessionID(args[0])
	if err := h.CloseSession(ctx, id, "to be redacted"); err != nil {
		return err
	}
	_, err = h.Redact(ctx, id, args[2:], "asked to")
	return err
}

// redactedEntry is the archive entry of a redacted session, as package bus stores it.
type redactedEntry struct {
	Last       events.Seq               `msgpack:"q"`
	Stream     string                   `msgpack:"s"`
	Runs       []storedRun              `msgpack:"r"`
	Redactions []events.RedactionRecord `msgpack:"d,omitempty"`
	StoredAt   events.Millis            `msgpack:"a,omitempty"`
}

type storedRun struct {
	First events.Seq `msgpack:"f"`
	Last  events.Seq `msgpack:"l"`
	File  []byte     `msgpack:"d,omitempty"`
}

// forgeRecord DIR SESSION CHANGE changes the record of a redaction in the store.
func forgeRecord(args []string) error {
	var entry redactedEntry
	return changeEntry(args[0], args[1], &entry, func(*keyring.Keys) error {
		if len(entry.Redactions) == 0 {
			return errors.New("there is no redaction")
		}
		switch args[2] {
		case "reason":
			entry.Redactions[0].Reason = "nobody asked"
		case "unsigned":
			entry.Redactions[0].Note = ""
		case "none":
			entry.Redactions = nil
		default:
			return fmt.Errorf("unknown change %s", args[2])
		}
		return nil
	})
}

// storedEntry is the archive entry of an erased session, as package bus stores it.
type storedEntry struct {
	Last   events.Seq  `msgpack:"q"`
	Stream string      `msgpack:"s"`
	Erased storedStone `msgpack:"x"`
}

type storedStone struct {
	At        events.Millis `msgpack:"t"`
	By        string        `msgpack:"b"`
	Reason    string        `msgpack:"r"`
	Last      events.Seq    `msgpack:"q"`
	Retention bool          `msgpack:"n,omitempty"`
	Note      string        `msgpack:"g,omitempty"`
}

// forgeTombstone DIR SESSION CHANGE writes another tombstone into the store.
func forgeTombstone(args []string) error {
	var entry storedEntry
	return changeEntry(args[0], args[1], &entry, func(keys *keyring.Keys) (err error) {
		x := &entry.Erased
		if x.Note == "" || x.Last < 2 {
			return fmt.Errorf("the tombstone is %+v, want a signed one", x)
		}
		switch args[2] {
		case "reason":
			x.Reason = "nobody asked"
		case "cut":
			x.Last--
		case "unsigned":
			x.Note = ""
		case "short": // by a program with the node's key
			x.Last = 2
			x.Note, err = keys.Signer().SignTombstone(&proof.Tombstone{
				Session: events.SessionID(args[1]), Signed: x.At, At: x.At, By: x.By, Reason: x.Reason, Size: 2,
			})
		default:
			err = fmt.Errorf("unknown change %s", args[2])
		}
		return err
	})
}

// changeEntry replaces the archive entry of a session. change changes what entry points to.
func changeEntry(dir, id string, entry any, change func(*keyring.Keys) error) error {
	keys, err := keyring.Load(keyring.Dir(dir), time.Now())
	if err != nil {
		return err
	}
	server, b, err := openTestStore(dir, busembed.Config{})
	if err != nil {
		return err
	}
	defer server.Stop()
	defer b.Close()
	ctx := context.Background()
	js, err := jetstream.New(b.Conn())
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "lash-archive")
	if err != nil {
		return err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, "lash.archive."+id)
	if err != nil {
		return err
	}
	if err := events.DecodePayload(msg.Data, entry); err != nil {
		return err
	}
	if err := change(keys); err != nil {
		return err
	}
	data, err := events.EncodePayload(entry)
	if err == nil {
		_, err = js.Publish(ctx, msg.Subject, data)
	}
	return err
}

// signedHead signs the head of a history of n commits with a text in each.
func signedHead(t *testing.T, signer *proof.Signer, text string, n int) *proof.Head {
	t.Helper()
	var s proof.State
	for i := 1; ; i++ {
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint(text, i)), Session: "s", At: events.MillisOf(time.Now()), Actor: events.Actor{Kind: events.ActorNode},
			Salt: make([]byte, 16), Events: []events.Event{events.Of("", &events.SessionClosed{Reason: text})},
		}
		if i == n {
			_, h, err := signer.Sign(c, &s)
			runtest.NoError(t, err)
			return h
		}
		leaf, _, err := events.HashOf(c)
		runtest.NoError(t, err)
		s.Tree.Append(leaf)
	}
}

// TestTombstoneHeads compares tombstones with a head of 9 commits that an auditor has.
func TestTombstoneHeads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := keyring.Open(dir, time.Now())
	runtest.NoError(t, err)
	tenants, err := readKey(filepath.Join(dir, keyring.TenantPub))
	runtest.NoError(t, err)
	head := func(text string, n int) *proof.Head { return signedHead(t, keys.Signer(), text, n) }
	given, root := head("real", 9), proof.Hash{1}
	for name, c := range map[string]struct {
		stone *proof.Tombstone
		want  proof.Fault // empty: none
		notes int
	}{
		"the_given_head":      {&proof.Tombstone{Size: 10, Root: &root, Head: given.Note}, "", 0},
		"end_of_the_history":  {&proof.Tombstone{Size: 9, Root: &given.Root}, "", 0},
		"a_later_head":        {&proof.Tombstone{Size: 20, Root: &root, Head: head("real", 15).Note}, "", 1},
		"another_root":        {&proof.Tombstone{Size: 10, Root: &root, Head: head("forged", 9).Note}, proof.FaultConflicting, 0},
		"another_end":         {&proof.Tombstone{Size: 9, Root: &root}, proof.FaultConflicting, 0},
		"an_older_head":       {&proof.Tombstone{Size: 10, Root: &root, Head: head("forged", 5).Note}, proof.FaultConflicting, 0},
		"no_head":             {&proof.Tombstone{Size: 10, Root: &root}, proof.FaultConflicting, 0},
		"no_root":             {&proof.Tombstone{Size: 9}, proof.FaultConflicting, 0},
		"no_root_later_head":  {&proof.Tombstone{Size: 20, Head: head("real", 15).Note}, "", 1},
		"cut_off":             {&proof.Tombstone{Size: 8, Root: &root}, proof.FaultRolledBack, 0},
		"malformed_head":      {&proof.Tombstone{Size: 10, Root: &root, Head: "x"}, "", 2},
		"contradicts_its_own": {&proof.Tombstone{Size: 5, Root: &root, Head: head("forged", 5).Note}, proof.FaultConflicting, 0},
	} {
		c.stone.Session = "s"
		v := &verification{trust: &trust{tenants: tenants}, id: "s"}
		if name != "contradicts_its_own" {
			v.trust.heads = map[events.SessionID][]*proof.Head{"s": {given}}
		}
		v.compareHeads(&tombstone{}, c.stone)
		got := proof.Fault("")
		if len(v.found.Violations) > 0 {
			got = v.found.Violations[0].Fault
		}
		if got != c.want || len(v.found.Violations) > 1 || len(v.found.Notes) != c.notes {
			t.Errorf("%s: got %v, notes %q, want %q and %d notes", name, v.found.Violations, v.found.Notes, c.want, c.notes)
		}
	}
}
