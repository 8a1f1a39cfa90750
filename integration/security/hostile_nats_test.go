package security

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// overNATS sends a request of an operation as a user of the outer account.
func (a *attacker) overNATS(op operation.Name) {
	session, user := a.aim(string(op), "alice@acme", pick(a.forger, "host@acme", "host@acme", "host@acme", "host@acme", "host@acme", "host@acme", "mallory@acme", "alice@acme"))
	data, key := a.envelope(op, session)
	what := fmt.Sprintf("NATS %s of %s by %s: %x", op, session, user, data[:min(len(data), 300)])
	got, err := a.rawAnswer(user, op, data, nil)
	switch code := got.Error.Code; {
	case err != nil:
		a.wrong("%s: %v", what, err)
	case code == "":
		var made events.SessionID
		if op == operation.Create.Name {
			_ = events.DecodePayload(got.Body, &made)
		}
		name, _, _ := strings.Cut(user, "@")
		a.accepted("NATS", events.SessionID(session), got.Seq, name, made)
	default:
		if code == api.CodeInternal || got.Error.Message == "" {
			a.wrong("%s: got %+v", what, got.Error)
		}
		_, class := api.Code(api.DecodeError(got.Error))
		switch class {
		case api.ClassInvalid, api.ClassTooLarge, api.ClassBusy:
			a.named(what, code, got.Error.Message, got.Error.Details)
			a.undone(http.StatusBadRequest, key)
		case api.ClassForbidden, api.ClassNotFound:
			a.undone(http.StatusForbidden, key)
		default:
		}
		a.outcome("NATS", code)
	}
}

// envelope is a request as clients send it, with its key. The server takes none above 1 MiB, which is made again.
func (a *attacker) envelope(op operation.Name, session string) (data []byte, key string) {
	for {
		r := api.Request{Format: api.RequestFormat, Actor: "boss", Session: events.SessionID(session), Body: a.msgpack(op, a.fresh)}
		if a.IntN(3) == 0 {
			r.Key = pick(a.forger, "k1", "k2", a.fresh, "a b", a.unique(), a.unique())
		}
		data, err := events.EncodePayload(&r)
		if err == nil && a.IntN(40) == 0 {
			data, r.Key = a.bytes(data), ""
		}
		if err == nil && len(data) <= 1<<20 {
			return data, r.Key
		}
	}
}
