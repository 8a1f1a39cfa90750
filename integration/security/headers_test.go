package security

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// forgedHeaders are blocks of headers with the name of another user, each between other headers, where the server does not find
// it, and in front of what hides the line that the server adds. The last two bytes of a block are those that the server takes
// off for that line.
func forgedHeaders() (list []string) {
	const name = `Nats-Request-Info: {"acc":"acme-clients","user":"boss@acme"}`
	for _, before := range []string{"", "X: a\n", "X: a\r\n\n", "X:\n", ": a\n", "\n", "Nats-Request-InfoX: a\n", "Lash-Stream: x\n", name + "\n", name + "\r\n"} {
		for _, after := range []string{"\r\n\r\n", "\n\r\n", "\r\n:\r\n", "\r\nX: \r\n", "\r\nX\r\n", "\n\n\r\n", "\r\ntracestate:  \r\n", "\r\n: \r\n", "\n :\r\n", "\r\n\t\r\n"} {
			for _, short := range []int{0, 3, 40} { // headers that need less bytes than their parsed form
				var filler strings.Builder
				for i := range short {
					fmt.Fprintf(&filler, "f%d:\n", i)
				}
				list = append(list, "NATS/1.0\r\n"+filler.String()+before+name+after, "NATS/1.0\n"+before+filler.String()+name+after)
			}
		}
	}
	return list
}

// rawClient is a connection that sends bytes as they are.
type rawClient struct {
	t  *testing.T
	to *tls.Conn
	in *bufio.Reader
}

func (d *deployment) raw(user string) *rawClient {
	d.t.Helper()
	d.access(user) // issues the certificate
	base := d.certs(strings.ReplaceAll(user, "@", "-at-"))
	pair, err := tls.LoadX509KeyPair(base+".pem", base+".key")
	runtest.WantError(d.t, "certificate", err, nil)
	authority, err := os.ReadFile(d.clients.pem)
	runtest.WantError(d.t, "authority", err, nil)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	tcp, err := (&net.Dialer{}).DialContext(d.t.Context(), "tcp", d.ns.Addr().String())
	runtest.WantError(d.t, "connect", err, nil)
	d.t.Cleanup(func() { _ = tcp.Close() })
	_, err = bufio.NewReaderSize(tcp, 16).ReadString('\n') // the server sends no more before the handshake
	runtest.WantError(d.t, "hello", err, nil)
	c := &rawClient{t: d.t, to: tls.Client(tcp, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13})}
	c.in = bufio.NewReader(c.to)
	c.send("CONNECT {\"headers\":true,\"verbose\":false}\r\nSUB %s.x 1\r\n", inboxOf(user))
	return c
}

func (c *rawClient) send(format string, args ...any) {
	c.t.Helper()
	_, err := fmt.Fprintf(c.to, format, args...)
	runtest.WantError(c.t, "send", err, nil)
}

// request sends a request of an operation, with a block of headers.
func (c *rawClient) request(user, op, headers string, body []byte) {
	c.t.Helper()
	c.send("HPUB lash.api.%s %s.x %d %d\r\n%s%s\r\n", op, inboxOf(user), len(headers), len(headers)+len(body), headers, body)
}

// pong waits until the server has read what was sent.
func (c *rawClient) pong() {
	c.t.Helper()
	c.send("PING\r\n")
	_ = c.to.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		line, err := c.in.ReadString('\n')
		runtest.WantError(c.t, "read", err, nil)
		if line == "PONG\r\n" {
			return
		}
	}
}

// TestHeadersForgeNoName has a client write the header of the server in many forms that the server does not find and the
// parser of nodes does. A node names alice, or does not perform the request.
func TestHeadersForgeNoName(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.StartNode()
	const each = 100 // requests for each session
	name := func(i int) events.SessionID { return events.SessionID(fmt.Sprint("s", i/each)) }
	input := func(i int) events.InputID { return events.InputID(fmt.Sprint("i", i)) }
	inject := func(i int) []byte {
		t.Helper()
		body, err := events.EncodePayload(&api.InjectRequest{ID: input(i), Parts: []events.Part{harness.Text("x")}})
		runtest.WantError(t, "encode", err, nil)
		request, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Actor: "boss", Session: name(i), Body: body})
		runtest.WantError(t, "encode", err, nil)
		return request
	}
	alice, cases := d.raw("alice@acme"), forgedHeaders()
	honest := []string{"NATS/1.0\r\n\r\n", "NATS/1.0\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX: y\r\n\r\n"}
	all := slices.Concat(cases, honest)
	for i := 0; i < len(all); i += each {
		b.Open(api.CreateRequest{ID: name(i)})
	}
	for i, headers := range cases {
		alice.request("alice@acme", "inject", headers, inject(i))
		alice.pong()
	}
	for i, headers := range honest {
		i += len(cases)
		alice.request("alice@acme", "inject", headers, inject(i))
		b.AwaitPolling("an honest request is done", func() bool {
			return slices.ContainsFunc(b.StateOf(name(i)).Inputs, func(in projector.Input) bool { return in.ID == input(i) })
		})
	}
	performed := 0
	for i := 0; i < len(all); i += each {
		for entry, err := range b.Bus.Log().Read(b.Ctx, name(i), 2) {
			runtest.WantError(t, "read", err, nil)
			in := entry.Commit.Events[0].Payload.(*events.InputInjected).Input
			if actor := entry.Commit.Actor; actor != (events.Actor{Kind: events.ActorClient, ID: "alice"}) {
				n, _ := strconv.Atoi(string(in[1:]))
				t.Errorf("got actor %v of %q, want alice", actor, all[n])
			}
			performed++
		}
	}
	t.Logf("%d blocks of headers: %d requests were performed, as alice", len(all), performed)
}
