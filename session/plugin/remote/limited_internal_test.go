package remote

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestRegistrationIsRefusedLater has a node ask for the manifest again, and refuse it then. The instance has the hash
// that the node gave it in its signs of life, and ends with the refusal.
func TestRegistrationIsRefusedLater(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(bustest.Server(t, busembed.Config{Listen: true}).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := []wire.Registered{{Hash: "of-the-node"}, {Error: &wire.Error{Code: wire.CodeConflict, Message: "replaced"}}}
	_, err = conn.Subscribe("lash.plugins.notes.register", func(m *nats.Msg) {
		data, _ := json.Marshal(&answers[0])
		answers = answers[1:]
		_ = m.Respond(data)
	})
	signs, more := conn.SubscribeSync("lash.plugin-live.notes.*")
	if err = errors.Join(err, more); err != nil {
		t.Fatal(err)
	}
	i, err := Start(t.Context(), Config{Conn: conn, Plugin: plugin.Func("notes", func(*plugin.Registrar) error { return nil }), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := signs.NextMsg(time.Minute)
	var sign wire.Sign
	if err = errors.Join(err, json.Unmarshal(m.Data, &sign)); err != nil || sign.Hash != "of-the-node" {
		t.Errorf("sign: got %q, %v, want the node's hash", sign.Hash, err)
	}
	if err := conn.Publish(i.subject("register"), nil); err != nil {
		t.Fatal(err)
	}
	err = i.Run(t.Context())
	if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != wire.CodeConflict {
		t.Errorf("run: got %v, want the refusal", err)
	}
}

// TestTermIsTheFirst has a node ask for the manifest again while the first registration waits for its answer. Both answers have a term, of
// nodes whose clocks are apart. All signs of life have the same: with two, nodes would take the program for two, and refuse it.
func TestTermIsTheFirst(t *testing.T) {
	t.Parallel()
	conn, err := nats.Connect(bustest.Server(t, busembed.Config{Listen: true}).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requests := make(chan *nats.Msg, 10)
	_, err = conn.ChanSubscribe("lash.plugins.notes.register", requests)
	signs, more := conn.SubscribeSync("lash.plugin-live.notes.*")
	if err = errors.Join(err, more); err != nil {
		t.Fatal(err)
	}
	started := make(chan *Instance, 1)
	go func() {
		i, err := Start(t.Context(), Config{Conn: conn, Plugin: plugin.Func("notes", func(*plugin.Registrar) error { return nil }), Version: "1"})
		if err != nil {
			t.Error(err)
		}
		started <- i
	}()
	termOfSign := func() string {
		m, err := signs.NextMsg(time.Minute)
		var sign wire.Sign
		if err = errors.Join(err, json.Unmarshal(m.Data, &sign)); err != nil {
			t.Fatal(err)
		}
		return sign.Term
	}
	answer := func(m *nats.Msg, term string) {
		var in wire.Registration
		if err := errors.Join(json.Unmarshal(m.Data, &in), m.Respond([]byte(`{"term":"`+term+`"}`))); err != nil || in.Term != "" {
			t.Errorf("got %v, the term %q, want none", err, in.Term)
		}
	}
	first := <-requests
	var in wire.Registration
	if err := errors.Join(json.Unmarshal(first.Data, &in), conn.Publish("lash.plugin.notes."+in.Instance+".register", nil)); err != nil {
		t.Fatal(err)
	}
	second := <-requests
	answer(second, "2")
	for term := ""; term == ""; {
		if err := conn.Publish("lash.plugin.notes.all.sign", nil); err != nil {
			t.Fatal(err)
		}
		if term = termOfSign(); term != "" && term != "2" {
			t.Errorf("got the term %q, want the first one", term)
		}
	}
	answer(first, "1")
	var i *Instance
	for waits := true; waits; {
		select {
		case i = <-started:
			waits = false
		case again := <-requests: // the first one waited too long for its answer
			answer(again, "1")
		}
	}
	for range 3 {
		if term := termOfSign(); term != "2" {
			t.Errorf("got a sign with the term %q, want the first one, 2", term)
		}
	}
	if err := i.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestLongRegistrationIsRefusedAfterAWait has an instance wait for a node for more tries than it may be refused. The first
// node refuses it as one of too many. It tries again.
func TestLongRegistrationIsRefusedAfterAWait(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	conn, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	requests := 0
	node := func() {
		_, err := conn.Subscribe("lash.plugins.notes.register", func(m *nats.Msg) {
			answer := wire.Registered{}
			if requests++; requests == 1 {
				answer.Error = &wire.Error{Code: wire.CodeRateLimited, Message: "too many"}
			}
			data, _ := json.Marshal(&answer)
			_ = m.Respond(data)
		})
		if err != nil {
			t.Error(err)
		}
	}
	before, started := conn.Stats().OutMsgs, make(chan error, 1)
	var i *Instance
	go func() { // ends with the registration
		var err error
		i, err = Start(t.Context(), Config{Conn: conn, Plugin: plugin.Func("notes", func(*plugin.Registrar) error { return nil }), Version: "1"})
		started <- err
	}()
	bustest.Eventually(t, "more tries than after a refusal", func() bool { return conn.Stats().OutMsgs-before >= registerTries+2 })
	node()
	if err := bustest.Receive(t, "the registration", started); err != nil {
		t.Fatalf("start: got %v, want it registered after %d requests", err, requests)
	}
	if err := i.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
