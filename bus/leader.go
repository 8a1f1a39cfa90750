package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// leaderQuery names a message of a stream: by its sequence; the newest of a subject; the first of a subject from a sequence on.
type leaderQuery struct {
	Seq  uint64 `json:"seq,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
}

// leaderMessage is a message as the leader of its stream has it.
type leaderMessage struct {
	Subject string    `json:"subject"`
	Data    []byte    `json:"data"`
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Header  []byte    `json:"hdrs"` // a block of headers
}

func (m *leaderMessage) raw() (*jetstream.RawStreamMsg, error) {
	raw := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: m.Seq, Data: m.Data, Time: m.Time}
	if len(m.Header) == 0 {
		return raw, nil
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return nil, fmt.Errorf("%w: headers at %d: %w", events.ErrMalformed, m.Seq, err)
	}
	raw.Header = header
	return raw, nil
}

// atLeader reads a message from the leader of a stream, which has every message that was acknowledged. Errors: [ErrNotFound], which no
// other answer means: a replica may be behind, and a mirror may leave messages out and answers direct reads too. A bus of [OpenReader] may
// lack the permission.
func (b *Bus) atLeader(ctx context.Context, stream string, q leaderQuery) (leaderMessage, error) {
	var answer struct {
		Message *leaderMessage      `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	request, err := json.Marshal(q)
	if err != nil {
		return leaderMessage{}, err
	}
	err = b.retry(ctx, "read "+stream, func(ctx context.Context) error {
		msg, err := b.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: apiLeaderGet + stream, Data: request})
		if err != nil {
			return err
		}
		answer.Message, answer.Error = nil, nil
		if err := json.Unmarshal(msg.Data, &answer); err != nil {
			return fmt.Errorf("%w: %w", events.ErrMalformed, err)
		}
		switch {
		case answer.Error == nil:
			return nil
		case isMissing(answer.Error):
			return fmt.Errorf("%w: %w", ErrNotFound, answer.Error)
		}
		return answer.Error
	})
	if err == nil && answer.Message == nil {
		err = fmt.Errorf("%w: an answer without a message", events.ErrMalformed)
	}
	if err != nil {
		return leaderMessage{}, fmt.Errorf("read %s at its leader: %w", stream, err)
	}
	return *answer.Message, nil
}
