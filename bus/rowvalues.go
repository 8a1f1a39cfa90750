package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// Batches of row values are larger than those of histories: they are small, and read all at once.
const (
	valueMessages = 3 * batchMessages / 2 // with the end of the batch less than what a subscription holds: twice batchMessages
	valueBytes    = 1 << 20
	valueTries    = 5 // of a batch without an answer
)

// Values reads the value of every row, in no order, for readers to whom a missing row is no error: the messages have no
// headers, which cost the server more than the messages, so that a lost one is not noticed. A row whose key is not here is left out. The next batch is requested
// while one is yielded.
func (r Rows) Values(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		l, stream := r.b.linkOf(true), r.b.names.rowStream(r.kv.Bucket())
		request := func(from uint64) (*nats.Subscription, error) {
			sub, err := l.nc.SubscribeSync(l.nc.NewRespInbox())
			if err == nil {
				_ = l.nc.PublishRequest(apiDirectGet+stream, sub.Subject, fmt.Appendf(nil, `{"seq":%d,"batch":%d,"max_bytes":%d,"no_hdr":true}`, from, valueMessages, valueBytes)) // without an answer the batch ends with an error
			}
			return sub, mapError(err)
		}
		sub, err := request(1)
		defer func() { _ = sub.Unsubscribe() }()
		for from, try := uint64(1), 1; from != 0; {
			var list [][]byte
			var next uint64
			if err == nil {
				err = r.b.onceOver(ctx, l, r.b.cfg.Timeout, func(ctx context.Context) (err error) {
					list, next, err = valueBatch(ctx, sub)
					return err
				})
			}
			again := isUnknown(err) && try < valueTries && ctx.Err() == nil
			if again {
				try, next = try+1, from
			} else if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", r.kv.Bucket(), err))
				return
			} else {
				try = 1
			}
			_ = sub.Unsubscribe() // a late answer is not of the next batch
			if err = nil; next != 0 {
				sub, err = request(next)
			}
			if from = next; again {
				continue
			}
			for _, stored := range list {
				value, err := r.load(stored)
				if errors.As(err, new(*events.KeyError)) {
					continue
				}
				if !yield(value.text, err) || err != nil {
					return
				}
			}
		}
	}
}

// valueBatch receives a batch. next is the sequence of the next one; 0 after the last.
func valueBatch(ctx context.Context, sub *nats.Subscription) (list [][]byte, next uint64, err error) {
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, 0, err
		}
		if msg.Header == nil {
			list = append(list, msg.Data)
			continue
		}
		switch msg.Header.Get("Status") {
		case "204":
			last, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
			if pending := msg.Header.Get("Nats-Num-Pending"); err != nil || pending == "" || pending == "0" {
				return list, 0, nil //nolint:nilerr // an end without a sequence is the last one
			}
			return list, last + 1, nil
		case "404":
			return list, 0, nil
		case "503":
			return nil, 0, nats.ErrNoResponders
		default:
			return nil, 0, fmt.Errorf("%w: %s", ErrNotFound, msg.Header.Get("Description"))
		}
	}
}
