package page

import (
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
	"github.com/lash-go/lash/workers"
)

// door is the HTTP server of a node, at an address that the next node takes over.
type door struct {
	address string
	server  *http.Server
}

// open serves a node's host, at a new address where there is none yet.
func (d *door) open(b *harness.System, n *workers.Node) {
	b.T.Helper()
	page, err := webpage.New(webpage.Settings{})
	runtest.WantError(b.T, "page", err, nil)
	api, err := httpapi.New(httpapi.Config{Service: n.Host(), Tokens: harness.Tokens(), Page: page, Logger: zaptest.NewLogger(b.T)})
	runtest.WantError(b.T, "new server", err, nil)
	if d.address == "" {
		d.address = "127.0.0.1:0"
	}
	on, err := net.Listen("tcp", d.address)
	runtest.WantError(b.T, "listen", err, nil)
	d.address = on.Addr().String()
	d.server = &http.Server{Handler: api, ReadHeaderTimeout: time.Minute}
	ended, server := make(chan struct{}), d.server
	go func() { // ends with the server
		defer close(ended)
		_ = server.Serve(on)
	}()
	b.T.Cleanup(func() {
		api.Drain()
		_ = server.Close()
		<-ended
	})
}

// TestNodeKilled kills the node that the page is connected to, in the middle of a reply. The page says so, connects to
// the next node at the address, and has every commit once.
func TestNodeKilled(t *testing.T) {
	t.Parallel()
	runtest.Chromium(t)
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("First.")), harness.Hang(started, harness.Text("I begin ")), harness.Reply(harness.Text("The second node says it.")))
	first, kill := b.StartNodeOn(b.Bus)
	b.Host = first.Host()
	id := b.Open(api.CreateRequest{})
	d := &door{}
	d.open(b, first)
	p := browse(t, "http://"+d.address, desktop)
	p.expect("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY", "503")
	p.open("#/s/"+string(id), "writer")
	p.awaitText(".link", "live")
	p.write(".talk textarea", "one\r")
	p.awaitText(".message.assistant", "First.")
	p.write(".talk textarea", "two\r")
	harness.Receive(b, "the reply's begin", started)
	p.awaitText(".message.live", "I begin")

	kill()
	_ = d.server.Close()
	p.awaitText(".link", "connecting again")
	second, _ := b.StartNodeOn(bustest.Open(t, b.Server))
	b.Host = second.Host()
	d.open(b, second)
	p.awaitText(".message.assistant", "The second node says it.")
	p.awaitText(".link", "live")
	p.awaitText(".headline", "Last turn: finished")
	p.await("no live text", "!document.querySelector('.message.live')")
	runtest.Equal(t, "messages of the user", eval[int](p, "document.querySelectorAll('.message.user').length"), 2)
	runtest.Equal(t, "place", eval[string](p, "document.querySelector('.scrubber input').max"), seqText(b, id))
}

// TestStop cancels a turn, whose live text then ends, and the history has the caller.
func TestStop(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Hang(started, harness.Text("I begin ")))
	b.StartNode()
	id := b.Open(api.CreateRequest{})
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(id), "writer")
	p.write(".talk textarea", "count to a million\r")
	harness.Receive(b, "the reply's begin", started)
	p.awaitText(".headline", "The model writes")
	p.await("the button", "!document.querySelector('.talk-line > button').hidden")
	p.click(".talk-line > button")
	p.awaitText(".headline", "Last turn: cancelled")
	p.awaitText(".headline", "by writer: stopped on the page")
	p.awaitText(".turn-end", "by writer: stopped on the page")
	p.click(".turn-end summary")
	p.awaitText(".turn-end details", "I begin")
	p.await("no live text", "!document.querySelector('.message.live')")
}

// TestBranchAndFork continues a conversation from an earlier message, and copies it.
func TestBranchAndFork(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("Reply one.")), harness.Reply(harness.Text("Reply two.")), harness.Reply(harness.Text("Reply three.")))
	b.StartNode()
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("one"))
	b.RunTurn(id, "t2", harness.Text("two"))
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(id), "writer")
	p.awaitText(".message.assistant", "Reply two.")
	p.click(".row[data-key^='n:a-t1-0'] .actions button:nth-child(2)")
	p.await("the branch", "!document.body.innerText.includes('Reply two.')")
	p.write(".talk textarea", "another way\r")
	p.awaitText(".message.assistant", "Reply three.")
	p.await("the first reply", "document.body.innerText.includes('Reply one.') && !document.body.innerText.includes('Reply two.')")

	p.click(".row[data-key^='n:a-t1-0'] .actions button:last-child")
	p.await("the copy", "!location.hash.includes("+quoted(string(id))+")")
	p.awaitText(".message.assistant", "Reply one.")
	p.await("the copy's end", "!document.body.innerText.includes('Reply three.')")
}

func seqText(b *harness.System, id events.SessionID) string {
	b.T.Helper()
	return strconv.FormatUint(uint64(b.LastSeq(id)), 10)
}
