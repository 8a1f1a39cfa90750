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

// DeadLetter is a session that no node can fold, so its history cannot record the state of its work.
type DeadLetter struct {
	Session  events.SessionID `msgpack:"s" json:"session"`
	Error    string           `msgpack:"e,omitempty" json:"error,omitempty"` // of the last attempt, at most [MaxDeadError] bytes; empty where each killed its worker
	Attempts int64            `msgpack:"a" json:"attempts"`
	At       events.Millis    `msgpack:"t" json:"at_ms"`
	Worker   events.WorkerID  `msgpack:"w" json:"worker"`
	Seq      uint64           `msgpack:"-" json:"seq"` // in the stream of dead letters
}

// MaxDeadError bounds the error of a dead letter, in bytes.
const MaxDeadError = 1000

// TrialKey names what attempts are counted of. Each key has a row of its own: what happens to other work of the session
// does not change it.
type TrialKey struct {
	Session events.SessionID
	Of      TrialOf
	Turn    events.TurnID // of [TrialTurn] and [TrialEnd]; empty in a TrialEnd of a change of the configuration
}

// TrialOf is a kind of work.
type TrialOf string

// Kinds of work whose attempts are counted.
const (
	TrialFold TrialOf = "fold" // folding the session
	TrialTurn TrialOf = "turn" // a turn, until it makes progress
	TrialEnd  TrialOf = "end"  // the call to plugins about the end of a turn, or about a change of the configuration
	TrialRest TrialOf = "rest" // what a session without a turn needs
)

func (k TrialKey) check() error {
	err := events.CheckToken("session", k.Session)
	if k.Of == TrialTurn || k.Turn != "" {
		err = errors.Join(err, events.CheckToken("turn", k.Turn))
	}
	return err
}

// Trial counts attempts without progress, where the history cannot count them. A worker writes it before it starts work
// whose earlier attempt failed or killed its worker.
type Trial struct {
	Count   int64         `msgpack:"n"`           // attempts in a row, this one included
	Own     int64         `msgpack:"o,omitempty"` // of these, the ones that returned an error, or began alone on their node and had nothing beside them
	Attempt int64         `msgpack:"a,omitempty"` // of the turn, in the history, when the row was written
	At      events.Millis `msgpack:"t"`
	Error   string        `msgpack:"e,omitempty"` // of the last attempt that did not kill its worker
}

const (
	// deadMaxAge is how long a dead letter is kept. trialTTL is how long a trial is kept after its last write.
	deadMaxAge = 30 * 24 * time.Hour
	trialTTL   = 24 * time.Hour
)

// deadConfig is the stream of dead letters and trials.
func (b *Bus) deadConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: b.names.deadStream(), Subjects: []string{b.names.deadAll(), b.names.trialAll()},
		Storage: jetstream.FileStorage, Replicas: b.replicas, MaxMsgSize: maxMessage,
		MaxMsgsPerSubject: 1, MaxAge: deadMaxAge, AllowMsgTTL: true,
	}
}

// PutDeadLetter stores a dead letter in place of the session's earlier one.
func (b *Bus) PutDeadLetter(ctx context.Context, letter *DeadLetter) error {
	body, err := events.EncodePayload(letter)
	if err = errors.Join(err, events.CheckToken("session", letter.Session)); err == nil {
		err = b.publishBodyAcked(ctx, b.names.deadStream(), b.names.dead(letter.Session), body)
	}
	if err != nil {
		return fmt.Errorf("put dead letter of %s: %w", letter.Session, err)
	}
	return nil
}

// DeadLetters lists the dead letters, in no order.
func (b *Bus) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for msg, err := range b.lastMessages(ctx, b.names.deadStream(), b.names.deadLetters()) {
			var letter DeadLetter
			if err == nil {
				letter = b.readLetter(msg)
			}
			if !yield(letter, err) || err != nil {
				return
			}
		}
	}
}

// DeadLetter is the dead letter of a session. Errors: [ErrNotFound].
func (b *Bus) DeadLetter(ctx context.Context, session events.SessionID) (DeadLetter, error) {
	if err := events.CheckToken("session", session); err != nil {
		return DeadLetter{}, err
	}
	msg, err := b.lastMessage(ctx, b.names.deadStream(), b.names.dead(session))
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter of %s: %w", session, err)
	}
	return b.readLetter(msg), nil
}

// readLetter decodes a letter. That a session has one is known from the subject, so a letter whose text cannot be read, such as
// one of a key that was forgotten, says that in place of its text.
func (b *Bus) readLetter(msg *jetstream.RawStreamMsg) DeadLetter {
	var letter DeadLetter
	body, err := b.loadBody(msg.Data, msg.Subject)
	if err == nil {
		err = events.DecodePayload(body, &letter)
	}
	if err != nil {
		letter = DeadLetter{Error: fmt.Sprintf("the text of the dead letter cannot be read: %v", err), At: events.MillisOf(msg.Time)}
	}
	letter.Session, letter.Seq = b.names.deadOf(msg.Subject), msg.Sequence
	return letter
}

// DropDeadLetter removes a dead letter, but not a newer one of the same session. It is no error that there is none.
func (b *Bus) DropDeadLetter(ctx context.Context, letter *DeadLetter) error {
	return b.purgeSubject(ctx, b.names.deadStream(), b.names.dead(letter.Session), jetstream.WithPurgeSequence(letter.Seq+1))
}

// Trial is the trial of a key; zero where there is none.
func (b *Bus) Trial(ctx context.Context, key TrialKey) (Trial, error) {
	var t Trial
	if err := key.check(); err != nil {
		return t, fmt.Errorf("trial: %w", err)
	}
	subject := b.names.trial(key)
	msg, err := b.lastMessage(ctx, b.names.deadStream(), subject)
	if errors.Is(err, ErrNotFound) {
		return t, nil
	}
	var body []byte
	if err == nil {
		body, err = b.loadBody(msg.Data, msg.Subject)
	}
	if err == nil {
		err = events.DecodePayload(body, &t)
	}
	if err != nil {
		return Trial{}, fmt.Errorf("trial of %s: %w", key.Session, err)
	}
	return t, nil
}

// PutTrial stores the trial of a key. It is durable on return.
func (b *Bus) PutTrial(ctx context.Context, key TrialKey, t Trial) error {
	body, err := events.EncodePayload(&t)
	if err = errors.Join(err, key.check()); err == nil {
		err = b.publishBodyAcked(ctx, b.names.deadStream(), b.names.trial(key), body, jetstream.WithMsgTTL(trialTTL))
	}
	if err != nil {
		return fmt.Errorf("trial of %s: %w", key.Session, err)
	}
	return nil
}

// DropTrial removes the trial of a key.
func (b *Bus) DropTrial(ctx context.Context, key TrialKey) error {
	if err := key.check(); err != nil {
		return fmt.Errorf("trial: %w", err)
	}
	return b.purgeSubject(ctx, b.names.deadStream(), b.names.trial(key))
}

// DropTrials removes all trials of a session.
func (b *Bus) DropTrials(ctx context.Context, session events.SessionID) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	return b.purgeSubject(ctx, b.names.deadStream(), b.names.trialsOf(session))
}

// publishBodyAcked publishes a body until it is acked or ctx ends: it may be stored twice.
func (b *Bus) publishBodyAcked(ctx context.Context, stream, subject string, body []byte, opts ...jetstream.PublishOpt) error {
	stored, err := b.storeBody(body, subject)
	if err != nil {
		return err
	}
	return b.retry(ctx, "publish", b.publishOnce(stream, &nats.Msg{Subject: subject, Data: stored}, opts...))
}

// publishAcked publishes once, and waits for the ack. err is why there is no message.
func (b *Bus) publishAcked(ctx context.Context, stream string, msg *nats.Msg, err error) error {
	if err != nil {
		return err
	}
	return b.once(ctx, b.publishOnce(stream, msg))
}

func (b *Bus) publishOnce(stream string, msg *nats.Msg, opts ...jetstream.PublishOpt) func(context.Context) error {
	return func(ctx context.Context) error {
		return b.withRoom(stream, len(msg.Data), func() error {
			_, err := b.js.PublishMsg(ctx, msg, append(opts, jetstream.WithRetryAttempts(0))...)
			return err
		})
	}
}

// lastMessage is the newest message of a subject, from the leader. Errors: [ErrNotFound].
func (b *Bus) lastMessage(ctx context.Context, stream, subject string) (msg *jetstream.RawStreamMsg, err error) {
	err = b.retry(ctx, "look into "+stream, func(ctx context.Context) error {
		s, err := b.js.Stream(ctx, stream)
		if err == nil {
			msg, err = s.GetLastMsgForSubject(ctx, subject)
		}
		return err
	})
	if isNoAsset(err) { // a deployment that is older than the stream
		return nil, fmt.Errorf("look into %s: %w", stream, ErrNotFound)
	}
	return msg, err
}

// lastMessages yields the newest message of every subject that matches, in no order.
func (b *Bus) lastMessages(ctx context.Context, stream, subjects string) iter.Seq2[*jetstream.RawStreamMsg, error] {
	return func(yield func(*jetstream.RawStreamMsg, error) bool) {
		subjects, err := b.subjects(ctx, stream, subjects)
		if isNoAsset(err) { // a deployment that is older than the stream
			return
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for subject := range subjects {
			msg, err := b.lastMessage(ctx, stream, subject)
			if errors.Is(err, ErrNotFound) {
				continue // removed meanwhile
			}
			if !yield(msg, err) || err != nil {
				return
			}
		}
	}
}
