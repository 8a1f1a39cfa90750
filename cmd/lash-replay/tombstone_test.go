package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/keyring"
)

// eraseSigned SESSION DIR erases a session with the keys of the store.
func eraseSigned(args []string) error {
	keys, err := keyring.Load(keyring.Dir(args[1]), time.Now())
	if err != nil {
		return err
	}
	server, b, err := openTestStore(args[1], busembed.Config{})
	if err != nil {
		return err
	}
	defer server.Stop()
	defer b.Close()
	h, err := session.New(session.Config{Bus: b, Actor: "tester", Plugins: session.NoPlugins(), Signer: keys.Signer})
	if err == nil {
		_, err = h.Erase(context.Background(), events.SessionID(args[0]), "asked to")
	}
	return err
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
	server, b, err := openTestStore(args[0], busembed.Config{})
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
	msg, err := stream.GetLastMsgForSubject(ctx, "lash.archive."+args[1])
	if err != nil {
		return err
	}
	var entry storedEntry
	if err := events.DecodePayload(msg.Data, &entry); err != nil {
		return err
	}
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
		keys, err := keyring.Load(keyring.Dir(args[0]), time.Now())
		if err != nil {
			return err
		}
		x.Last = 2
		x.Note, err = keys.Signer().SignTombstone(&proof.Tombstone{
			Session: events.SessionID(args[1]), Signed: x.At, At: x.At, By: x.By, Reason: x.Reason, Size: 2,
		})
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown change %s", args[2])
	}
	data, err := events.EncodePayload(&entry)
	if err == nil {
		_, err = js.Publish(ctx, msg.Subject, data)
	}
	return err
}
