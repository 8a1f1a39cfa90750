package bus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

const (
	// silentAppends is the number of appends in a row without an answer after which a stream counts as one that takes none.
	silentAppends = 2
	// refusedFor is how long silence counts. Work that waits for a stream appends again sooner.
	refusedFor = 30 * time.Second
	// triedAfter is the age of a refusal from which [Bus.Ready] tries by itself whether there is room again.
	triedAfter = 5 * time.Second
	// triedBytes is the most that it stores for that.
	triedBytes = 128 << 10
	// maxRefusals bounds the streams of which refusals are known.
	maxRefusals = 64
	// namedRefusals bounds the streams that an error names.
	namedRefusals = 3
)

// refusals are the streams that refuse appends because of storage.
type refusals struct {
	known atomic.Bool // there are some; an append that succeeds looks only then

	mu      sync.Mutex
	streams map[string]refusal
}

// refusal is the state of a stream whose last append failed. Servers (nats-server 2.15.2) refuse appends above a limit with an error.
// A server whose disk was full answers no append to the stream until it restarts.
type refusal struct {
	err        error
	full       bool // the server names a limit
	bytes      int  // that were refused
	silent     int  // appends in a row without an answer
	at         time.Time
	reconnects uint64 // of the connection: a server that restarts takes appends again
}

func (r *refusal) counts() bool { return r.full || r.silent >= silentAppends }

// KeptFree is how many bytes of a disk stay free of histories and bodies, see [Config.Free]. What nodes agree on leaves [keptByAll] of them,
// for what servers write by themselves: an erasure, which makes space, needs some.
const (
	KeptFree  = 4 << 20
	keptByAll = KeptFree / 4
	// smallBytes is the size up to which a message to a stream that all sessions share is of that kind.
	smallBytes = 64 << 10
)

// storing runs one request that stores bytes in a stream. Its error is mapped. Errors: [events.ErrStorage], where nothing was stored.
func (b *Bus) storing(ctx context.Context, stream string, bytes int, limit time.Duration, request func(context.Context) error) error {
	return b.withRoom(stream, bytes, func() error {
		err := b.onceWithin(ctx, limit, request)
		b.recordStored(ctx, stream, bytes, err)
		return err
	})
}

// withRoom stores bytes in a stream, if the servers' disk has room for them. Error: [events.ErrStorage], and those of store.
func (b *Bus) withRoom(stream string, bytes int, store func() error) error {
	if b.cfg.Free == nil {
		return store()
	}
	kept := int64(KeptFree)
	if _, history := b.names.sessionOf(stream); !history && stream != b.names.blobStream() && bytes <= smallBytes {
		kept = keptByAll
	}
	under := b.storingBytes.Add(int64(bytes))
	defer b.storingBytes.Add(-int64(bytes))
	if free, err := b.cfg.Free(); err == nil && free-under < kept {
		return fmt.Errorf("%w: stream %s takes no more: the disk of the store has %d bytes free, and %d are kept free: make space", events.ErrStorage, stream, free, kept)
	}
	return store()
}

// hasRoom is nil where a stream takes so many bytes.
func (b *Bus) hasRoom(stream string, bytes int) error {
	return b.withRoom(stream, bytes, func() error { return nil })
}

// hint publishes a message that a sweep repairs where it is lost, and waits for no ack. err is why there is none.
func (b *Bus) hint(stream string, msg *nats.Msg, err error) error {
	if err != nil {
		return err
	}
	return b.withRoom(stream, len(msg.Data), func() error { return mapError(b.nc.PublishMsg(msg)) })
}

// recordStored records the outcome of a request that stores a message.
func (b *Bus) recordStored(ctx context.Context, stream string, bytes int, err error) {
	full, silent := isStorageFull(err), isTimeout(err) && ctx.Err() == nil && b.nc.IsConnected()
	s := &b.refusals
	switch {
	case !full && !silent && !s.known.Load():
		return
	case !full && !silent:
		s.drop(stream)
	case s.add(stream, refusal{err: err, full: full, bytes: bytes, at: time.Now(), reconnects: b.Reconnects()}):
		b.log.Error("a stream refuses appends", zap.String("stream", stream), zap.Error(err))
	}
}

// add adds a refusal. began reports that the stream counts as one that takes no appends from now on.
func (s *refusals) add(stream string, now refusal) (began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.streams[stream]
	if len(s.streams) >= maxRefusals && old.err == nil {
		return false
	}
	if s.streams == nil {
		s.streams = make(map[string]refusal)
	}
	if old.reconnects != now.reconnects || !old.full && now.at.Sub(old.at) > refusedFor {
		old = refusal{}
	}
	if !now.full {
		now.silent = old.silent + 1
	}
	s.streams[stream] = now
	s.known.Store(true)
	return now.counts() && !old.counts()
}

func (s *refusals) drop(stream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, stream)
	s.known.Store(len(s.streams) > 0)
}

// current are the refusals that count now. One that names a limit counts until something is stored, silence until it is old.
func (s *refusals) current(now time.Time, reconnects uint64) map[string]refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.streams, func(_ string, r refusal) bool {
		return !r.full && now.Sub(r.at) > refusedFor || r.reconnects != reconnects
	})
	s.known.Store(len(s.streams) > 0)
	list := maps.Clone(s.streams)
	maps.DeleteFunc(list, func(_ string, r refusal) bool { return !r.counts() })
	return list
}

// storageRefused is nil, or [events.ErrStorage] with the streams that refuse appends because of storage. A stream that answers no other
// request either has lost its servers, which is another error.
func (b *Bus) storageRefused(ctx context.Context) error {
	if err := b.hasRoom(b.names.blobStream(), 0); err != nil {
		return err
	}
	refused := b.refusals.current(time.Now(), b.Reconnects())
	var list []string
	for _, stream := range slices.Sorted(maps.Keys(refused)) {
		r := refused[stream]
		if r.full && b.tryRoom(ctx, stream, &r) {
			continue
		}
		if !r.full {
			if _, err := b.streamInfo(ctx, stream); err != nil {
				continue
			}
		}
		list = append(list, r.text(stream))
	}
	if len(list) == 0 {
		return nil
	}
	more := ""
	if n := len(list) - namedRefusals; n > 0 {
		list, more = list[:namedRefusals], fmt.Sprintf("; and %d more streams", n)
	}
	return fmt.Errorf("%w: %s%s", events.ErrStorage, strings.Join(list, "; "), more)
}

// tryRoom reports whether the servers take as many bytes as a stream refused: where nobody appends, nothing else tells. It stores them
// beside the bodies, and removes them.
func (b *Bus) tryRoom(ctx context.Context, stream string, r *refusal) bool {
	if time.Since(r.at) < triedAfter {
		return false
	}
	subject := b.names.blobChunks(rand.Text())
	err := b.once(ctx, func(ctx context.Context) error {
		_, err := b.js.Publish(ctx, subject, make([]byte, min(r.bytes, triedBytes)))
		return err
	})
	if err != nil {
		if isStorageFull(err) {
			b.recordStored(ctx, stream, r.bytes, err)
		}
		return false
	}
	b.refusals.drop(stream)
	_ = b.purgeSubject(ctx, b.names.blobStream(), subject) // else the sweep removes them
	return true
}

func (r *refusal) text(stream string) string {
	if r.full {
		return fmt.Sprintf("stream %s refuses appends: %v: raise the limit of the account or of the server, or erase sessions", stream, r.err)
	}
	return fmt.Sprintf("stream %s answers no append, and other requests: its server's disk was full or failed: make space, then restart the server", stream)
}

// sessionStream is the stream that probably takes a session's appends.
func (b *Bus) sessionStream(session events.SessionID) string {
	if h, ok := b.streams.get(session); ok {
		return h.stream
	}
	return b.names.firstStream(session)
}

// isStorageFull reports whether a server refused to store a message because of a limit.
func isStorageFull(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{codeAccountFull, codeInsufficient, codeStorageFull}, api.ErrorCode)
}

func isTimeout(err error) bool {
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}
