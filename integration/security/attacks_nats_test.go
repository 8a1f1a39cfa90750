package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// rawAnswer is the response to any message.
func (f *installation) rawAnswer(user string, op operation.Name, data []byte, header nats.Header) (a api.Response, err error) {
	ctx, cancel := context.WithTimeout(f.Ctx, 30*time.Second)
	defer cancel()
	got, err := f.exchange(ctx, user, &nats.Msg{Subject: "lash.api." + string(op), Data: data, Header: header})
	if err == nil {
		err = events.DecodePayload(got.Data, &a)
	}
	return a, err
}

// refusedCode describes the difference between a response and a refusal. Without codes it allows any but internal.
func refusedCode(a api.Response, err error, codes ...string) string {
	code := a.Error.Code
	if err != nil || code == "" || code == "internal" || len(codes) > 0 && !slices.Contains(codes, code) {
		return fmt.Sprintf("got %v, %+v, want it refused %v", err, a.Error, codes)
	}
	return ""
}

// encoded is an envelope as clients send it.
func (f *installation) encoded(r api.Request, body any) []byte {
	f.T.Helper()
	var err error
	r.Format = api.RequestFormat
	r.Body, err = events.EncodePayload(body)
	runtest.WantError(f.T, "encode", err, nil)
	data, err := events.EncodePayload(&r)
	runtest.WantError(f.T, "encode", err, nil)
	return data
}

// natsBodies are a valid body of each operation.
func natsBodies() map[operation.Name]any {
	bodies := bodiesInSession()
	bodies[operation.Create.Name], bodies[operation.StoreBlob.Name] = &api.CreateArgs{Request: api.CreateRequest{ID: "never"}}, &[]byte{1}
	return bodies
}

// attacksOverNATS sends every operation with every user.
func (f *installation) attacksOverNATS() (list []attack) {
	for op, body := range natsBodies() {
		data := f.encoded(api.Request{Session: "mine", Actor: "host", Key: "k"}, body)
		if operation.Named()[op].Needs != api.RightRead {
			list = append(list,
				attack{"NATS outer", "rights", string(op), func() string {
					a, err := f.rawAnswer("mallory@acme", op, data, nil)
					return refusedCode(a, err, "forbidden")
				}},
				attack{"NATS outer", "identity", string(op) + "_header", func() string {
					a, err := f.rawAnswer("mallory@acme", op, data, nats.Header{"Nats-Request-Info": {`{"acc":"acme","user":"node@acme"}`, `{"user":"host@acme"}`}})
					return refusedCode(a, err, "forbidden")
				}})
		}
		if op == operation.Create.Name || op == operation.StoreBlob.Name || op == operation.CloseSession.Name || op == operation.TakeFirstTurnInput.Name { // of missing things, a close is done already, and there is no input
			continue
		}
		list = append(list, attack{"NATS outer", "reach", string(op), func() string {
			a, err := f.rawAnswer("alice@acme", op, data, nil)
			none, _ := f.rawAnswer("alice@acme", op, f.encoded(api.Request{Session: "nosuch", Key: "k"}, body), nil)
			if a.Error.Message != strings.ReplaceAll(none.Error.Message, "nosuch", "mine") {
				return fmt.Sprintf("got %v, want %v", a.Error, none.Error)
			}
			return refusedCode(a, err, none.Error.Code)
		}})
	}
	for _, subject := range replySubjects() {
		for _, op := range []operation.Name{operation.ToolState.Name, operation.Create.Name} {
			list = append(list, attack{"NATS outer", "forged reply", string(op) + "_to_" + subject, func() string {
				nc := f.conns["mallory@acme"] // which may not create
				if err := nc.PublishRequest("lash.api."+string(op), subject, f.encoded(api.Request{Session: "mine"}, natsBodies()[op])); err != nil {
					return err.Error()
				}
				if err := nc.FlushWithContext(f.Ctx); err != nil {
					return err.Error()
				}
				return ""
			}})
		}
	}
	return list
}

// envelopesOverNATS sends every operation with malformed requests.
func (f *installation) envelopesOverNATS() (list []attack) {
	for op, body := range natsBodies() {
		good := f.encoded(api.Request{Session: "mine"}, body)
		raw := func(r api.Request) []byte {
			r.Format = max(r.Format, api.RequestFormat)
			data, err := events.EncodePayload(&r)
			runtest.WantError(f.T, "encode", err, nil)
			return data
		}
		inSession := func(body []byte) []byte { return raw(api.Request{Session: "mine", Body: body}) }
		for name, m := range map[string]struct {
			class string
			data  []byte
		}{
			"empty": {"schema", nil}, "no_msgpack": {"schema", []byte{0xc1}}, "cut": {"schema", good[:len(good)-1]}, "longer": {"schema", append(slices.Clone(good), 0)},
			"format": {"schema", raw(api.Request{Format: 99, Session: "mine"})}, "bytes": {"schema", inSession([]byte("\xc4\xff"))}, "unknown_field": {"schema", inSession([]byte("\x81\xa1?\x01"))},
			"twice_the_field": {"schema", inSession([]byte("\x82\xa1i\xa1x\xa1i\xa1y"))}, "length_bomb": {"size", inSession([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})}, "map_bomb": {"size", inSession([]byte{0xdf, 0xff, 0xff, 0xff, 0xff})},
			"text_bomb": {"size", inSession([]byte{0xdb, 0xff, 0xff, 0xff, 0xff})}, "too_large": {"size", make([]byte, api.MaxRequestBytes+1)},
			"arrays": {"depth", inSession(harness.Nest(100_000, "\x91", "\xc0", ""))}, "maps": {"depth", inSession(harness.Nest(100_000, "\x81\xa1a", "\xc0", ""))}, "extensions": {"depth", inSession(harness.Nest(100_000, "\xc7\x03\x01", "\xc0", ""))},
			"session_up": {"path traversal", raw(api.Request{Session: "../mine"})}, "session_subject": {"path traversal", raw(api.Request{Session: "mine.turn"})}, "session_star": {"path traversal", raw(api.Request{Session: "*"})},
			"session_rest": {"path traversal", raw(api.Request{Session: ">"})}, "session_nul": {"path traversal", raw(api.Request{Session: "mine\x00"})}, "session_long": {"path traversal", raw(api.Request{Session: events.SessionID(strings.Repeat("m", 300))})},
			"key_subject": {"idempotency", raw(api.Request{Session: "mine", Key: "a.b"})}, "key_long": {"idempotency", raw(api.Request{Session: "mine", Key: strings.Repeat("k", 300)})},
			"actor": {"identity", raw(api.Request{Session: "mine", Actor: "\x1b[31mroot"})},
		} {
			list = append(list, attack{"NATS outer", m.class, string(op) + "_" + name, func() string {
				a, err := f.rawAnswer("host@acme", op, m.data, nil)
				return refusedCode(a, err)
			}})
		}
	}
	return list
}

// keyedRequest is a request with a key that is done once.
type keyedRequest struct {
	op          operation.Name
	envelope    api.Request
	body, other any // other is not the same request
}

// keyedRequests were done before the attacks, in the session mine.
func (f *installation) keyedRequests() []keyedRequest {
	in := func(key string) api.Request { return api.Request{Session: "mine", Key: key} }
	node := func(id events.NodeID) any {
		return &api.AppendNodesRequest{IdempotencyKey: "n", Nodes: []api.AppendNode{{ID: id, Kind: events.NodePlugin, Type: "x", Body: []byte("{}")}}}
	}
	return []keyedRequest{
		{operation.Create.Name, api.Request{Key: "c"}, &api.CreateArgs{Request: api.CreateRequest{ID: "mine"}}, &api.CreateArgs{Request: api.CreateRequest{ID: "mine", Parent: "hers"}}},
		{operation.Submit.Name, in("t1"), new(turnWith("t1", small(11))), new(turnWith("t1", small(22)))},
		{operation.Inject.Name, in("i1"), &api.InjectRequest{ID: "i1", Parts: small(11)}, &api.InjectRequest{ID: "i1", Parts: small(22)}},
		{operation.AppendNodes.Name, in("n"), node("n1"), node("n2")},
		{operation.OpenFrame.Name, in("f"), &api.FrameRequest{Frame: "f1"}, &api.FrameRequest{Frame: "f2"}},
		{operation.Grant.Name, in("g"), &api.GrantRequest{To: "carol", Rights: []events.SessionRight{"read"}}, &api.GrantRequest{To: "mallory", Rights: []events.SessionRight{"read", "write"}}},
	}
}

// replayed repeats those requests, also with other content.
func (f *installation) replayed() (list []attack) {
	for _, ask := range f.keyedRequests() {
		for n := range 3 {
			list = append(list, attack{"NATS outer", "replay", fmt.Sprint(ask.op, n), func() string {
				before := f.LastSeq("mine")
				a, err := f.rawAnswer("host@acme", ask.op, f.encoded(ask.envelope, ask.body), nil)
				if after := f.LastSeq("mine"); err != nil || a.Error.Code != "" || after != before {
					return fmt.Sprintf("got %v, %+v and %d commits more, want the first answer", err, a.Error, after-before)
				}
				return ""
			}})
		}
		list = append(list, attack{"NATS outer", "idempotency", string(ask.op) + "_of_something_else", func() string {
			a, err := f.rawAnswer("host@acme", ask.op, f.encoded(ask.envelope, ask.other), nil)
			return refusedCode(a, err, "different_content", "session_exists")
		}})
	}
	for _, create := range []api.CreateRequest{{ID: "ring", Parent: "ring"}, {ID: "ring", Start: api.StartExisting, From: "ring"}, {ID: "mine", Parent: "mine"}} {
		list = append(list, attack{"NATS outer", "parent cycle", fmt.Sprintf("%s_%s_%s", create.ID, create.Parent, create.From), func() string {
			a, err := f.rawAnswer("host@acme", operation.Create.Name, f.encoded(api.Request{}, &api.CreateArgs{Request: create}), nil)
			return refusedCode(a, err)
		}})
	}
	return list
}

// attacksOnAccounts has users publish outside of their accounts. The server refuses each.
func (f *installation) attacksOnAccounts() (list []attack) {
	for user, transport := range map[string]string{"backup@acme": "NATS inner", "auditor@acme": "NATS outer"} {
		name, _, _ := strings.Cut(user, "@")
		rows := mayPublish()
		subjects := replySubjects()
		for op := range natsBodies() {
			subjects = append(subjects, "lash.api."+string(op))
		}
		slices.Sort(subjects)
		probe := f.d.probe(user)
		for _, subject := range slices.Compact(subjects) {
			if slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(row string) bool {
				return slices.Contains(strings.Fields(rows[row]), name) && subjectFits(row, subject)
			}) {
				continue
			}
			list = append(list, attack{transport, "reach", name + "_publishes_" + subject, func() string { probe.publish(subject, false); return "" }})
		}
		list = append(list, attack{transport, "reach", name + "_and_more", func() string { probe.publish("other", false); probe.check(); return "" }})
	}
	return list
}

// subjectFits reports whether a row with wildcards covers a subject.
func subjectFits(row, subject string) bool {
	want, got := strings.Split(row, "."), strings.Split(subject, ".")
	for i, token := range want {
		if token == ">" {
			return len(got) > i
		}
		if i >= len(got) || token != "*" && token != got[i] {
			return false
		}
	}
	return len(want) == len(got)
}

// attacksOnTLS connects as every user without its certificate.
func (f *installation) attacksOnTLS() (list []attack) {
	dir := f.T.TempDir()
	other := newAuthority(f.T, filepath.Join(dir, "other-ca.pem"))
	trusted := nats.RootCAs(f.d.clients.pem)
	for _, user := range []string{"node@acme", "backup@acme", "host@acme", "alice@acme", "auditor@acme", "node@globex"} {
		outsider, cased := filepath.Join(dir, "stranger-"+user), filepath.Join(dir, "cased-"+user)
		other.issue(outsider, user)
		f.d.clients.issue(cased, strings.ToUpper(user))
		for name, opts := range map[string][]nats.Option{
			"other_authority": {trusted, nats.ClientCert(outsider+".pem", outsider+".key")}, "upper_case": {trusted, nats.ClientCert(cased+".pem", cased+".key")},
			"no_certificate": {trusted}, "a_name": {trusted, nats.UserInfo(user, "")}, "a_password": {trusted, nats.UserInfo(user, "admin")}, "a_token": {trusted, nats.Token(user)},
			"a_server's": {trusted, nats.ClientCert(f.d.certs("server.pem"), f.d.certs("server.key")), nats.UserInfo(user, "")},
			"old_tls":    append(f.d.access(user), nats.Secure(&tls.Config{MaxVersion: tls.VersionTLS12})),
		} {
			list = append(list, attack{"NATS outer", "TLS", user + "_" + name, func() string {
				nc, err := nats.Connect(f.d.ns.ClientURL(), opts...)
				if err == nil {
					nc.Close()
					return "it is connected"
				}
				return ""
			}})
		}
	}
	return list
}
