package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// listWait bounds the wait for one page. While streams are deleted the server (2.15.2) sometimes does not answer, and
// in a cluster it waits 4 s for streams without a leader.
const listWait = 30 * time.Second

// page is one page of the server's list of streams.
type page[T any] struct {
	Total   int                 `json:"total"`
	Limit   int                 `json:"limit"`
	Streams []T                 `json:"streams"`
	Error   *jetstream.APIError `json:"error"`
}

// listStreams yields the streams of a subject, page by page. The client library's lister counts the streams that it
// received. The server omits streams without a leader, so that lister would never end.
func listStreams[T any](ctx context.Context, b *Bus, api, subject string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for offset, total := 0, 1; offset < total; {
			p, err := listPage[T](ctx, b, api, subject, offset)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range p.Streams {
				if !yield(one, nil) {
					return
				}
			}
			offset, total = offset+max(p.Limit, 1), p.Total
		}
	}
}

func listPage[T any](ctx context.Context, b *Bus, api, subject string, offset int) (p page[T], err error) {
	request, err := json.Marshal(map[string]any{"offset": offset, "subject": subject})
	if err != nil {
		return p, err
	}
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	err = b.retry(ctx, "list streams of "+subject, func(ctx context.Context) error {
		msg, err := b.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: api, Data: request})
		if err != nil {
			return err
		}
		p = page[T]{}
		if err := json.Unmarshal(msg.Data, &p); err != nil {
			return fmt.Errorf("%w: %w", events.ErrMalformed, err)
		}
		if p.Error != nil {
			return p.Error
		}
		return nil
	})
	return p, err
}

// Sessions lists every session, in no order; also those with no commit left, see [CutOffError].
func (b *Bus) Sessions(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		seen := make(map[events.SessionID]bool)
		for id, err := range b.Archived(ctx) { // first: a session that becomes cold meanwhile is in the second list
			if seen[id] = true; !yield(id, err) || err != nil {
				return
			}
		}
		for name, err := range listStreams[string](ctx, b, apiStreamNames, b.names.sessions()) {
			if err != nil {
				yield("", fmt.Errorf("list sessions: %w", err))
				return
			}
			id, ok := b.names.sessionOf(name)
			if !ok || seen[id] {
				continue
			}
			if seen[id] = true; !yield(id, nil) {
				return
			}
		}
		for id, err := range b.lostWhole(ctx, seen) {
			if !yield(id, err) || err != nil {
				return
			}
		}
	}
}

// Cold reports whether the whole history of a session is archived, with no stream. Errors: [events.ErrNoSession].
func (b *Bus) Cold(ctx context.Context, session events.SessionID) (bool, error) {
	loc, err := b.locate(ctx, session)
	return err == nil && loc.stream == "", err
}

// StoredAt is when the servers stored a session's last commit, by their clock; for a cold session, when it was
// archived. Errors: [events.ErrNoSession].
func (b *Bus) StoredAt(ctx context.Context, session events.SessionID) (time.Time, error) {
	loc, err := b.locate(ctx, session)
	if err != nil || loc.stream == "" {
		if at := loc.entry.StoredAt; at != 0 {
			return at.Time(), err
		}
		return loc.entry.PutAt, err
	}
	info, err := b.streamInfo(ctx, loc.stream)
	if err != nil {
		return time.Time{}, err
	}
	return changedAt(info), nil
}

// changedAt is when a stream stored its last message, or was made.
func changedAt(info *jetstream.StreamInfo) time.Time {
	if info.State.LastTime.Before(info.Created) {
		return info.Created
	}
	return info.State.LastTime
}

// HotSession is a session that has a stream.
type HotSession struct {
	ID     events.SessionID
	Last   events.Seq
	Quiet  time.Duration // since the last commit, or since the empty stream was made, by the servers' clocks
	Sealed bool          // an archiver has sealed it
}

// Hot lists every hot session, in no order, except those whose stream has no leader now.
func (b *Bus) Hot(ctx context.Context) iter.Seq2[HotSession, error] {
	return func(yield func(HotSession, error) bool) {
		for info, err := range listStreams[jetstream.StreamInfo](ctx, b, apiStreamList, b.names.sessions()) {
			if err != nil {
				yield(HotSession{}, fmt.Errorf("list hot sessions: %w", err))
				return
			}
			id, ok := b.names.sessionOf(info.Config.Name)
			if ok {
				b.incarnations.noteAgain(id, info.Config.Name, info.Created)
			}
			hot := HotSession{ID: id, Last: events.Seq(info.State.LastSeq), Quiet: b.Since(changedAt(&info)), Sealed: info.Config.Sealed}
			if ok && !yield(hot, nil) {
				return
			}
		}
	}
}
