package bus

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Headers of a request whose answer is followed while it is made. The client chooses a token, which no other client
// can guess, and repeats it as long as it listens.
const (
	// StreamHeader is of a request, and of what its client says later: the token.
	StreamHeader = "Lash-Stream"

	headerEnd   = "Lash-End"   // of the latter: the client listens no more
	headerPiece = "Lash-Piece" // of a piece of the answer: its number, from 0
)

// opListening is where such clients say that they listen. Each node takes what all of them say: a queue group
// would give it to a node that does not work on the request.
const opListening = "listening"

// listeningWithin is longer than a connection takes to be made again.
const listeningWithin = 10 * time.Second

// errNotListening is the cause of the end of a request whose client went away.
var errNotListening = errors.New("the client listens no more")

// listeners are the clients that follow an answer which this service makes.
type listeners struct {
	within time.Duration
	sub    *nats.Subscription // to what clients say; nil before start
	lost   func() int         // how much of that was lost on the way, as more came than was taken

	mu    sync.Mutex
	open  map[listenerKey]*listener
	ended map[string][]string // by user, the tokens that ended last and are not open: their requests may still come
}

// listenerKey names a client's request: no user's word is about another one's.
type listenerKey struct{ user, token string }

const (
	maxToken      = 64   // bytes of a token
	maxEnded      = 64   // tokens in ended of one user
	maxEndedUsers = 4096 // in ended
)

type listener struct {
	expiry *time.Timer
	cancel context.CancelCauseFunc
	lost   int // when its client was heard last
}

func newListeners(within time.Duration) listeners {
	return listeners{
		within: cmp.Or(within, listeningWithin), lost: func() int { return 0 },
		open: make(map[listenerKey]*listener), ended: make(map[string][]string),
	}
}

// start takes what clients say, until stop.
func (l *listeners) start(b *Bus) error {
	sub, err := b.nc.Subscribe(b.names.operation(opListening), l.heard)
	if err != nil {
		return mapError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sub = sub
	l.lost = func() int {
		n, _ := sub.Dropped() // an error: the subscription has ended, and with it the service
		return n
	}
	return nil
}

func (l *listeners) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sub != nil {
		_ = l.sub.Unsubscribe()
	}
}

// add has ctx end when the client of a request listens no more, until forget; at once, where it has said so before. ok is false where
// the request has no token, or one that cannot be told from another's: it is answered without pieces.
func (l *listeners) add(ctx context.Context, key listenerKey) (_ context.Context, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key.token == "" || len(key.token) > maxToken || l.open[key] != nil {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	one := &listener{cancel: cancel, lost: l.lost()}
	one.expiry = time.AfterFunc(l.within, func() { l.expired(one) })
	l.open[key] = one
	if slices.Contains(l.ended[key.user], key.token) {
		cancel(errNotListening)
	}
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		one.expiry.Stop()
		delete(l.open, key)
		cancel(nil)
	}, true
}

// expired ends a request whose client was not heard for too long. Where words of clients were lost meanwhile, as one of
// them floods this node, its own may be among them: it is waited for once more.
func (l *listeners) expired(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lost := l.lost(); lost != one.lost {
		one.lost = lost
		one.expiry.Reset(l.within)
		return
	}
	one.cancel(errNotListening)
}

// heard takes a client's word that it listens, or listens no more. Those of requests at other nodes mean nothing here.
func (l *listeners) heard(m *nats.Msg) {
	key := listenerKey{userOf(m.Header.Get(headerCaller)), m.Header.Get(StreamHeader)}
	ends := m.Header.Get(headerEnd) != ""
	l.mu.Lock()
	defer l.mu.Unlock()
	switch one := l.open[key]; {
	case one != nil && ends:
		one.cancel(errNotListening)
	case one != nil:
		if one.expiry.Stop() {
			one.lost = l.lost()
			one.expiry.Reset(l.within)
		}
	case ends && key.token != "" && len(key.token) <= maxToken:
		l.end(key)
	}
}

// end remembers the end of a request that was not looked at yet, as others before it wait for room.
func (l *listeners) end(key listenerKey) {
	list := append(l.ended[key.user], key.token)
	if len(list) > maxEnded {
		list = slices.Delete(list, 0, len(list)-maxEnded)
	}
	if len(list) == 1 && len(l.ended) >= maxEndedUsers {
		clear(l.ended)
	}
	l.ended[key.user] = list
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
		h := nats.Header{StreamHeader: {token}}
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
