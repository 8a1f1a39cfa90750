package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// DeadReason says why a command was given up.
type DeadReason string

// The reasons.
const (
	DeadPoisoned  DeadReason = "poisoned"   // its attempts came to nothing, again and again
	DeadUnread    DeadReason = "unreadable" // no worker could decode it
	DeadNoSession DeadReason = "no_session" // there is no such session
)

// DeadLetter is a command that no worker will try again by itself.
type DeadLetter struct {
	Class    Class            `msgpack:"c" json:"class"`
	Session  events.SessionID `msgpack:"s" json:"session"`
	ID       string           `msgpack:"i" json:"id"`             // of the command; of one that asks for a turn the turn's
	Body     []byte           `msgpack:"b,omitempty" json:"body"` // the command, as it stands in the queue
	Reason   DeadReason       `msgpack:"r" json:"reason"`
	Error    string           `msgpack:"e,omitempty" json:"error,omitempty"` // of the last attempt, at most [MaxDeadError] bytes; empty where each killed its worker
	Attempts int64            `msgpack:"a" json:"attempts"`                  // in a row that came to nothing
	At       events.Millis    `msgpack:"t" json:"at_ms"`
	Worker   events.WorkerID  `msgpack:"w" json:"worker"`
	Ended    bool             `msgpack:"h,omitempty" json:"ended"` // in the history, which has the reason too
	Seq      uint64           `msgpack:"-" json:"seq"`             // in the stream of dead letters
}

// MaxDeadError bounds the text of a dead letter's error, in bytes.
const MaxDeadError = 1000

// Tries are what a job's deliveries came to. They outlive workers.
type Tries struct {
	Job   uint64        `msgpack:"j"` // the message in the queue: a later job of the same id begins anew
	Count int64         `msgpack:"n"` // in a row that came to nothing, or may
	Seq   events.Seq    `msgpack:"q"` // of the session when the newest began
	At    events.Millis `msgpack:"t"` // when it began
	Error string        `msgpack:"e,omitempty"`

	Begun bool `msgpack:"-"` // this delivery's attempt is counted
}

// keepDead is how long a dead letter can be retried; keepTries how long nobody may have tried a job that is tried at all.
const (
	keepDead  = 30 * 24 * time.Hour
	keepTries = 24 * time.Hour
)

// deadConfig holds dead letters, and beside them the tries of jobs that may become some.
func (b *Bus) deadConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.deadStream(), Subjects: []string{b.names.deadAll(), b.names.triesAll()},
		Storage: jetstream.FileStorage, Replicas: b.cfg.Replicas, MaxMsgSize: maxMessage,
		MaxMsgsPerSubject: 1, MaxAge: keepDead, AllowMsgTTL: true,
	}
}

// PutDead keeps a dead letter, in place of an earlier one of the same command.
func (b *Bus) PutDead(ctx context.Context, letter *DeadLetter) error {
	body, err := events.EncodePayload(letter)
	if err == nil {
		err = b.put(ctx, &nats.Msg{Subject: b.names.dead(letter.Class, letter.Session, letter.ID), Data: body})
	}
	if err != nil {
		return fmt.Errorf("put dead letter %s: %w", letter.ID, err)
	}
	return nil
}

// DeadLetters lists them, in no order.
func (b *Bus) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for msg, err := range b.lastOf(ctx, b.names.deadStream(), b.names.deadAll()) {
			var letter DeadLetter
			if err == nil {
				letter, err = readLetter(msg)
			}
			if !yield(letter, err) || err != nil {
				return
			}
		}
	}
}

// DeadLetter is that of a command; [ErrNotFound] where there is none.
func (b *Bus) DeadLetter(ctx context.Context, class Class, session events.SessionID, id string) (DeadLetter, error) {
	msg, err := b.last(ctx, b.names.deadStream(), b.names.dead(class, session, id))
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %s: %w", id, err)
	}
	return readLetter(msg)
}

func readLetter(msg *jetstream.RawStreamMsg) (DeadLetter, error) {
	var letter DeadLetter
	if err := events.DecodePayload(msg.Data, &letter); err != nil {
		return letter, fmt.Errorf("dead letter at %d: %w", msg.Sequence, err)
	}
	letter.Seq = msg.Sequence
	return letter, nil
}

// DropDead forgets a dead letter, and not the one that came in its place. One that is gone is as good.
func (b *Bus) DropDead(ctx context.Context, letter *DeadLetter) error {
	return b.drop(ctx, b.names.deadStream(), b.names.dead(letter.Class, letter.Session, letter.ID), letter.Seq)
}

// LoadTries finds what is known of the job's earlier deliveries, in j.Tries.
func (j *Job) LoadTries(ctx context.Context) error {
	msg, err := j.b.last(ctx, j.b.names.deadStream(), j.b.names.tries(j.class, j.Session, j.ID))
	if err != nil {
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return fmt.Errorf("tries of %s: %w", j.ID, err)
	}
	var known Tries
	if err := events.DecodePayload(msg.Data, &known); err != nil {
		return fmt.Errorf("tries of %s: %w", j.ID, err)
	}
	if known.Job == j.seq {
		j.Tries = known
	}
	return nil
}

// SaveTries makes j.Tries known to whoever gets the job next.
func (j *Job) SaveTries(ctx context.Context) error {
	j.Tries.Job = j.seq
	body, err := events.EncodePayload(&j.Tries)
	if err == nil {
		err = j.b.put(ctx, &nats.Msg{Subject: j.b.names.tries(j.class, j.Session, j.ID), Data: body}, jetstream.WithMsgTTL(keepTries))
	}
	if err != nil {
		return fmt.Errorf("tries of %s: %w", j.ID, err)
	}
	return nil
}

// put publishes what may be published again, until it is answered or ctx ends.
func (b *Bus) put(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) error {
	return b.retry(ctx, "publish", func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, msg, append(opts, jetstream.WithRetryAttempts(0))...)
		return err
	})
}

// last is the newest message of a subject, as the leader has it; [ErrNotFound] where there is none.
func (b *Bus) last(ctx context.Context, stream, subject string) (msg *jetstream.RawStreamMsg, err error) {
	err = b.retry(ctx, "look into "+stream, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err == nil {
			msg, err = s.GetLastMsgForSubject(ctx, subject)
		}
		return err
	})
	if isNoAsset(err) { // of a deployment from before it
		return nil, fmt.Errorf("look into %s: %w", stream, ErrNotFound)
	}
	return msg, err
}

// lastOf gives the newest message of every subject that matches, in no order.
func (b *Bus) lastOf(ctx context.Context, stream, subjects string) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		subjects, err := b.subjects(ctx, stream, subjects)
		if isNoAsset(err) { // of a deployment from before it
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for subject := range subjects {
			msg, err := b.last(ctx, stream, subject)
			if errors.Is(err, ErrNotFound) {
				continue // it is gone since
			}
			if !yield(msg, err) || err != nil {
				return
			}
		}
	}
}

// drop deletes the messages of a subject up to a sequence.
func (b *Bus) drop(ctx context.Context, stream, subject string, seq uint64) error {
	return b.retry(ctx, "drop from "+stream, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err == nil {
			err = s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(seq+1))
		}
		return err
	})
}
