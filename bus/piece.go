package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of a request whose client follows the answer in pieces. The client chooses a token that no other client can
// guess, and repeats it while it listens.
const (
	headerStream = "Lash-Stream" // of a request, and of the client's later messages: the token
	headerEnd    = "Lash-End"    // of a later message: the client stops listening
	headerPiece  = "Lash-Piece"  // of a piece of the answer: its number, from 0
)

// opListening is the operation to which such clients publish that they listen. Each node subscribes to all of it: a
// queue group could deliver it to a node that does not work on the request.
const opListening = "listening"

// listeningWithin is longer than a reconnect takes.
const listeningWithin = 10 * time.Second

// errNotListening is the cause with which the request of a lost client is cancelled.
var errNotListening = errors.New("the client listens no more")

// listeners are the clients that follow the answers of this service, by token.
type listeners struct {
	within time.Duration
	stop   func() // ends the subscription to [opListening]

	mu   sync.Mutex
	open map[string]*listener
}

// maxToken bounds a token, in bytes.
const maxToken = 64

type listener struct {
	expiry *time.Timer
	cancel context.CancelCauseFunc
}

// add starts to watch the client of a token: ctx ends when the client stops to listen, until forget. ok is false for
// a request without a token, or with one that is too long or in use: it is answered without pieces.
func (l *listeners) add(ctx context.Context, token string) (_ context.Context, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token == "" || len(token) > maxToken || l.open[token] != nil {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	l.open[token] = &listener{time.AfterFunc(l.within, func() { cancel(errNotListening) }), cancel}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[token].expiry.Stop()
		delete(l.open, token)
		cancel(nil)
	}, true
}

// heard handles a client's message that it listens, or stops. Tokens of other nodes' requests are ignored.
func (l *listeners) heard(m *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch one := l.open[m.Header.Get(headerStream)]; {
	case one == nil:
	case m.Header.Get(headerEnd) != "":
		one.cancel(errNotListening)
	case one.expiry.Stop():
		one.expiry.Reset(l.within)
	}
}

// pieces sends the pieces of an answer to the client's inbox.
func (s *Service) pieces(reply string) func([]byte) {
	n := 0
	return func(data []byte) {
		_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{headerPiece: {strconv.Itoa(n)}}, Data: data}) // the number shows a loss
		n++
	}
}

// PieceFunc receives a piece of an answer. n counts the pieces of one request from 0; a missing n was lost.
type PieceFunc func(n int, data []byte)

// listening publishes every second that a client follows the answer to a request. stop publishes that it does no
// more.
func (b *Bus) listening(token string) (stop func()) {
	say := func(more ...string) {
		h := nats.Header{headerStream: {token}}
		if len(more) > 0 {
			h[headerEnd] = more
		}
		_ = b.nc.PublishMsg(&nats.Msg{Subject: b.names.operation(opListening), Header: h}) // the node waits for many of these
	}
	done := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() {
		every := time.NewTicker(workingEvery)
		defer every.Stop()
		for {
			select {
			case <-done:
				return
			case <-every.C:
				say()
			}
		}
	})
	return func() {
		close(done)
		beside.Wait()
		say("1")
	}
}
