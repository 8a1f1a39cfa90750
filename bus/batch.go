package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/lash-go/lash/events"
)

// Limits of one request of a reader, in messages and bytes. Readers have no consumer on the server, so this bounds
// the data that is buffered for one. Other work of the server and the client waits behind a batch: with 4 MiB, the p99
// of turns beside readers was twice as long, and no read was faster.
const (
	batchMessages = 512
	batchBytes    = 256 << 10
)

// batchOf requests the messages of a stream from a sequence on, of one subject unless that is empty. [ErrNotFound]:
// the replica that answers has none. The time limit covers an answer that a reconnect lost.
func (b *Bus) batchOf(ctx context.Context, l link, stream, subject string, from uint64, most int) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		once, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
		defer cancel()
		answered := b.pending() // until the first message: the reader of later ones may take its time
		defer answered()
		opts := []jetstreamext.GetBatchOpt{jetstreamext.GetBatchSeq(max(from, 1)), jetstreamext.GetBatchMaxBytes(batchBytes)}
		if subject != "" {
			opts = append(opts, jetstreamext.GetBatchSubject(subject))
		}
		batch, err := jetstreamext.GetBatch(once, l.js, stream, min(most, batchMessages), opts...)
		if err != nil {
			yield(nil, mapError(err))
			return
		}
		for msg, err := range wholeBatch(batch) {
			answered()
			if !yield(msg, mapError(err)) || err != nil {
				return
			}
		}
	}
}

// wholeBatch checks that no message of a batch is missing: each names the sequence of the one before it. A gap, as after a connection that
// was cut and made again, or a batch without any answer, ends it with [events.ErrOutcomeUnknown]. It does not notice a missing end: its caller
// requests the rest.
func wholeBatch(batch iter.Seq2[*jetstream.RawStreamMsg, error]) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		before := uint64(0) // 0: none was received
		for msg, err := range batch {
			if err == nil && msg.Header.Get(jetstream.LastSequenceHeader) != strconv.FormatUint(before, 10) {
				msg, err = nil, fmt.Errorf("%w: a message after %d was lost", events.ErrOutcomeUnknown, before)
			}
			if !yield(msg, err) || err != nil {
				return
			}
			before = msg.Sequence
		}
		if before == 0 {
			yield(nil, fmt.Errorf("%w: no answer", events.ErrOutcomeUnknown))
		}
	}
}

// messages yields the messages of a subject in order, from a sequence on, up to the end that the answering replica
// has. A batch without an answer is requested `tries` times. With 0 it is requested until ctx ends, and the end of a read of all
// messages, or of a span, is the leader's, unless the bus is a reader: the next read goes on where one of new messages ended. The error is terminal.
func (b *Bus) messages(ctx context.Context, large bool, stream, subject string, from uint64, tries int) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return b.messagesTo(ctx, large, stream, subject, from, math.MaxUint64, tries)
}

// messagesTo is messages up to a sequence.
func (b *Bus) messagesTo(ctx context.Context, large bool, stream, subject string, from, to uint64, tries int) iter.Seq2[*jetstream.RawStreamMsg, error] {
	whole := tries == 0 && !b.reader && (from <= 1 || to < math.MaxUint64)
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		for try := 1; ; try++ {
			if ctx.Err() != nil { // a batch may end without an error then
				yield(nil, context.Cause(ctx))
				return
			}
			if from > to {
				return
			}
			most := int(min(to-from, batchMessages-1)) + 1
			for msg, err := range b.batchOf(ctx, b.linkOf(large), stream, subject, from, most) {
				switch {
				case errors.Is(err, ErrNotFound) && !whole:
					return
				case errors.Is(err, ErrNotFound):
					next, err := b.atLeader(ctx, stream, leaderQuery{Seq: from, Next: subject})
					if errors.Is(err, ErrNotFound) || err == nil && next.Seq > to {
						return
					}
					var msg *jetstream.RawStreamMsg
					if err == nil {
						msg, err = next.raw()
					}
					if !yield(msg, err) || err != nil {
						return
					}
					from, try = next.Seq+1, 0
				case isUnknown(err) && (tries == 0 || try < tries):
					_ = pause(ctx, try) // the next try begins with the end of ctx
				case err != nil:
					yield(nil, err)
					return
				case msg.Sequence > to:
					return
				case !yield(msg, nil):
					return
				default:
					from, try = msg.Sequence+1, 0
				}
			}
		}
	}
}
