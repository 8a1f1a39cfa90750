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

// Headers of a request whose client follows the answer in chunks. The client chooses a token that no other client can
// guess, and repeats it while it listens.
const (
	// StreamHeader is of a request, and of the client's later messages: the token.
	StreamHeader = "Lash-Stream"

	headerEnd   = "Lash-End"   // of a later message: the client stops listening
	headerChunk = "Lash-Piece" // of a chunk of the answer: its number, from 0
)

// opListening is the operation to which such clients publish that they listen. Each node subscribes to all of it: a
// queue group could deliver it to a node that does not work on the request.
const opListening = "listening"

// listeningWithin is longer than a reconnect takes.
const listeningWithin = 10 * time.Second

// errNotListening is the cause with which the request of a lost client is cancelled.
var errNotListening = errors.New("the client listens no more")

// listeners are the clients that follow the answers of this service.
type listeners struct {
	silenceLimit time.Duration
	sub          *nats.Subscription // to [opListening]; nil before start
	dropped      func() int         // number of messages that the subscription dropped

	mu    sync.Mutex
	open  map[listenerKey]*listener
	ended map[string][]string // by user, the tokens that ended last and are not open: their requests may still come
}

// listenerKey names a request by its user and token, so that no user can end the request of another.
type listenerKey struct{ user, token string }

const (
	maxToken      = 64   // bytes of a token
	maxEnded      = 64   // tokens in ended of one user
	maxEndedUsers = 4096 // in ended
)

type listener struct {
	expiry        *time.Timer
	cancel        context.CancelCauseFunc
	droppedAtLast int // at the last message of its client
}

func newListeners(within time.Duration) listeners {
	return listeners{
		silenceLimit: cmp.Or(within, listeningWithin), dropped: func() int { return 0 },
		open: make(map[listenerKey]*listener), ended: make(map[string][]string),
	}
}

// start subscribes to the messages of clients, until stop.
func (l *listeners) start(b *Bus) error {
	sub, err := b.nc.Subscribe(b.names.operation(opListening), l.received)
	if err != nil {
		return mapError(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sub = sub
	l.dropped = func() int {
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

// watch starts to watch the client of a request: the returned context ends when the client stops to listen, or has stopped
// already. forget ends the watch. ok: the client receives chunks. It is false for a request without a token, or with one
// that is too long or in use.
func (l *listeners) watch(ctx context.Context, key listenerKey) (_ context.Context, forget func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key.token == "" || len(key.token) > maxToken || l.open[key] != nil {
		return ctx, func() {}, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	one := &listener{cancel: cancel, droppedAtLast: l.dropped()}
	one.expiry = time.AfterFunc(l.silenceLimit, func() { l.expired(one) })
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

// expired ends the request of a client that was silent for too long. If the subscription dropped messages since the client's
// last one, as in a flood, the client's own may be among them: expired waits once more.
func (l *listeners) expired(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if dropped := l.dropped(); dropped != one.droppedAtLast {
		one.droppedAtLast = dropped
		one.expiry.Reset(l.silenceLimit)
		return
	}
	one.cancel(errNotListening)
}

// received handles a client's message that it listens, or stops. Tokens of other nodes' requests are ignored.
func (l *listeners) received(m *nats.Msg) {
	user := ""
	if len(m.Header[headerCaller]) > 0 { // from another account
		var err error
		if user, err = senderOf(m.Header, m.Size()-len(m.Subject)-len(m.Reply)-len(m.Data)); err != nil {
			return
		}
	}
	key := listenerKey{user, m.Header.Get(StreamHeader)}
	ends := m.Header.Get(headerEnd) != ""
	l.mu.Lock()
	defer l.mu.Unlock()
	switch one := l.open[key]; {
	case one != nil && ends:
		one.cancel(errNotListening)
	case one != nil:
		if one.expiry.Stop() {
			one.droppedAtLast = l.dropped()
			one.expiry.Reset(l.silenceLimit)
		}
	case ends && key.token != "" && len(key.token) <= maxToken:
		l.storeEnded(key)
	}
}

// storeEnded stores the token of a request that this service has not started yet, because earlier requests wait for capacity.
func (l *listeners) storeEnded(key listenerKey) {
	list := append(l.ended[key.user], key.token)
	if len(list) > maxEnded {
		list = slices.Delete(list, 0, len(list)-maxEnded)
	}
	if len(list) == 1 && len(l.ended) >= maxEndedUsers {
		clear(l.ended)
	}
	l.ended[key.user] = list
}

// chunkSender sends the chunks of an answer to the client's inbox.
func (s *Service) chunkSender(reply string) func([]byte) {
	n := 0
	return func(data []byte) {
		_ = s.b.nc.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{headerChunk: {strconv.Itoa(n)}}, Data: data}) // the number shows a loss
		n++
	}
}

// ChunkFunc receives a chunk of an answer. n counts the chunks of one request from 0; a missing n was lost.
type ChunkFunc func(n int, data []byte)

// publishListening publishes every second that a client follows the answer to a request. stop publishes that it does no
// more.
func (b *Bus) publishListening(token string) (stop func()) {
	publish := func(more ...string) {
		h := nats.Header{StreamHeader: {token}}
		if len(more) > 0 {
			h[headerEnd] = more
		}
		_ = b.nc.PublishMsg(&nats.Msg{Subject: b.names.operation(opListening), Header: h}) // the node waits for many of these
	}
	end := publishEverySecond(func() { publish() })
	return func() {
		end()
		publish("1")
	}
}
