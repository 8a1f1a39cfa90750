package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of a request whose answer is followed while it is made. The client chooses a token, which no other client
// can guess, and repeats it as long as it listens.
const (
	headerStream = "Lash-Stream" // of a request, and of what its client says later: the token
	headerEnd    = "Lash-End"    // of the latter: the client listens no more
	headerPiece  = "Lash-Piece"  // of a piece of the answer: its number, from 0
)

// opListening is where such clients say that they listen. Each node takes what all of them say: a queue group
// would give it to a node that does not work on the request.
const opListening = "listening"

// listeningWithin is longer than a connection takes to be made again.
const listeningWithin = 10 * time.Second

// errNotListening is the cause of the end of a request whose client went away.
var errNotListening = errors.New("the client listens no more")

// listeners are the clients that follow an answer which this service makes, by their tokens.
type listeners struct {
	within time.Duration
	stop   func() // takes no more of what clients say

	mu   sync.Mutex
	open map[string]*listener
}

// maxToken bounds a token, in bytes.
const maxToken = 64

type listener struct {
	expiry *time.Timer
	cancel context.CancelCauseFunc
}

// add has ctx end when the client of a token listens no more, until forget. ok is false where the request has no token, or one
// that cannot be told from another's: it is answered without pieces.
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

// heard takes a client's word that it listens, or listens no more. Those of requests at other nodes mean nothing here.
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

// pieces sends pieces of an answer to who asked for it.
func (s *Service) pieces(reply string) func([]byte) {
	n := 0
	return func(data []byte) {
		_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{headerPiece: {strconv.Itoa(n)}}, Data: data}) // the number tells of a loss
		n++
	}
}

// PieceFunc gets a piece of an answer. n counts those of one request from 0: where one is missing, it was lost.
type PieceFunc func(n int, data []byte)

// listening tells nodes that a client follows the answer to a request, until stop, which tells them that it does no more.
func (b *Bus) listening(token string) (stop func()) {
	say := func(more ...string) {
		h := nats.Header{headerStream: {token}}
		if len(more) > 0 {
			h[headerEnd] = more
		}
		_ = b.nc.PublishMsg(&nats.Msg{Subject: b.names.operation(opListening), Header: h}) // the node's patience is many of them
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
