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

// DeadLetter is a session that no node can fold, so that its history cannot
// say what became of the work that it owes.
type DeadLetter struct {
	Session  events.SessionID `msgpack:"s" json:"session"`
	Error    string           `msgpack:"e,omitempty" json:"error,omitempty"` // of the last attempt, at most [MaxDeadError] bytes; empty where each killed its worker
	Attempts int64            `msgpack:"a" json:"attempts"`
	At       events.Millis    `msgpack:"t" json:"at_ms"`
	Worker   events.WorkerID  `msgpack:"w" json:"worker"`
	Seq      uint64           `msgpack:"-" json:"seq"` // in the stream of dead letters
}

// MaxDeadError bounds the text of a dead letter's error, in bytes.
const MaxDeadError = 1000

// Trial is written before a worker takes up a session that an earlier worker
// failed over, or died over, without an append: the history cannot count that.
type Trial struct {
	Count  int64         `msgpack:"n"` // attempts in a row, this one included
	Seq    events.Seq    `msgpack:"q"` // where the session ended then: one that has moved since is counted anew
	At     events.Millis `msgpack:"t"`
	Folded bool          `msgpack:"f,omitempty"` // the session could be folded
	Error  string        `msgpack:"e,omitempty"` // of the last attempt that did not kill its worker
}

// keepDead is how long a dead letter is kept; keepTrial how long a trial is that no worker repeats.
const (
	keepDead  = 30 * 24 * time.Hour
	keepTrial = 24 * time.Hour
)

// deadConfig holds dead letters and, beside them, trials.
func (b *Bus) deadConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.deadStream(), Subjects: []string{b.names.deadAll(), b.names.trialAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage,
		MaxMsgsPerSubject: 1, MaxAge: keepDead, AllowMsgTTL: true,
	}
}

// PutDead keeps a dead letter, in place of an earlier one of the same session.
func (b *Bus) PutDead(ctx context.Context, letter *DeadLetter) error {
	body, err := events.EncodePayload(letter)
	if err == nil {
		err = b.put(ctx, &nats.Msg{Subject: b.names.dead(letter.Session), Data: body})
	}
	if err != nil {
		return fmt.Errorf("put dead letter of %s: %w", letter.Session, err)
	}
	return nil
}

// DeadLetters lists them, in no order.
func (b *Bus) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for msg, err := range b.lastOf(ctx, b.names.deadStream(), b.names.deadLetters()) {
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

// DeadLetter is that of a session; [ErrNotFound] where there is none.
func (b *Bus) DeadLetter(ctx context.Context, session events.SessionID) (DeadLetter, error) {
	if err := events.CheckToken("session", session); err != nil {
		return DeadLetter{}, err
	}
	msg, err := b.last(ctx, b.names.deadStream(), b.names.dead(session))
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter of %s: %w", session, err)
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
	return b.drop(ctx, b.names.deadStream(), b.names.dead(letter.Session), letter.Seq)
}

// Trial is that of a session; the zero one where there is none.
func (b *Bus) Trial(ctx context.Context, session events.SessionID) (Trial, error) {
	var t Trial
	msg, err := b.last(ctx, b.names.deadStream(), b.names.trial(session))
	if errors.Is(err, ErrNotFound) {
		return t, nil
	}
	if err == nil {
		err = events.DecodePayload(msg.Data, &t)
	}
	if err != nil {
		return Trial{}, fmt.Errorf("trial of %s: %w", session, err)
	}
	return t, nil
}

// PutTrial makes a trial known to the workers that come next. When it returns nil it is durable.
func (b *Bus) PutTrial(ctx context.Context, session events.SessionID, t Trial) error {
	body, err := events.EncodePayload(&t)
	if err == nil {
		err = b.put(ctx, &nats.Msg{Subject: b.names.trial(session), Data: body}, jetstream.WithMsgTTL(keepTrial))
	}
	if err != nil {
		return fmt.Errorf("trial of %s: %w", session, err)
	}
	return nil
}

// DropTrial forgets a session's trial.
func (b *Bus) DropTrial(ctx context.Context, session events.SessionID) error {
	return b.purgeSubject(ctx, b.names.deadStream(), b.names.trial(session))
}

// put publishes what may be published again, until it is answered or ctx ends.
func (b *Bus) put(ctx context.Context, msg *nats.Msg, opts ...jetstream.PublishOpt) error {
	return b.retry(ctx, "publish", b.publishing(msg, opts...))
}

// store is put with one try.
func (b *Bus) store(ctx context.Context, msg *nats.Msg) error {
	return b.once(ctx, b.publishing(msg))
}

func (b *Bus) publishing(msg *nats.Msg, opts ...jetstream.PublishOpt) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, msg, append(opts, jetstream.WithRetryAttempts(0))...)
		return err
	}
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
