package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/reader"
	"github.com/lash-go/lash/session/internal/watch"
	"github.com/lash-go/lash/session/operation"
)

// Config is the input of [New].
type Config struct {
	Bus *bus.Bus // required; [bus.OpenReader] is enough, with [bus.Config.Wait] also before the first node
	// Actor is the name in commits, for users of the nodes' own account. For other users the server's authenticated
	// name replaces it. 1 to 64 of A-Z a-z 0-9 _ -. Defaults to "client".
	Actor string
	// Silence is the time without a sign of life from a node after which the client sends the request to another one.
	// Defaults to 5 s.
	Silence time.Duration
	Logger  *zap.Logger // nil is silent
}

// Client is the session service over NATS. It is safe for concurrent use. The methods that request a decision of a node,
// as Create, Submit and Approve, come from the embedded type. This command lists them:
//
//	go doc github.com/lash-go/lash/session/operation Requests
type Client struct {
	operation.Requests
	b       *bus.Bus
	reader  *reader.Reader
	watcher *watch.Watcher
	actor   string
	silence time.Duration
	log     *zap.Logger
}

var _ api.Service = (*Client)(nil)

// New makes a client.
func New(cfg Config) (*Client, error) {
	cfg.Actor = cmp.Or(cfg.Actor, "client")
	if err := events.CheckToken("actor", cfg.Actor); err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	cfg.Silence = cmp.Or(cfg.Silence, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, zap.NewNop())
	c := &Client{b: cfg.Bus, actor: cfg.Actor, silence: cfg.Silence, log: cfg.Logger.Named("client")}
	c.Requests = operation.Requests{Transport: c}
	var err error
	if c.reader, err = reader.New(cfg.Bus, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	c.watcher = watch.New(cfg.Bus, c.reader)
	return c, nil
}

// firstPause and longestPause are the waits between tries.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// Send implements [operation.Transport]: it sends the request to any node.
func (c *Client) Send(ctx context.Context, op *operation.Row, id events.SessionID, key string, in, out any) error {
	data, err := c.encode(api.Request{Session: id, Key: key}, in)
	if err != nil {
		return err
	}
	follow := newFollower(operation.StreamOf(ctx))
	unknown := false // a try may have had an effect
	unanswered := func(err error) bool {
		unknown = unknown || isUnknown(err)
		return isUndone(err) || isUnknown(err) && op.Repeat != operation.Once
	}
	err = repeat(ctx, unanswered, func() error {
		seq, err := c.once(ctx, op.Name, data, out, follow)
		api.RecordSeq(ctx, id, seq)
		if unanswered(err) {
			c.log.Debug("not answered", zap.String("op", string(op.Name)), zap.Error(err))
		}
		return err
	})
	if unanswered(err) && unknown {
		err = errors.Join(events.ErrOutcomeUnknown, err)
	}
	return err
}

// repeat retries while worth(err) is true, or until ctx ends: then the error is also its cause.
func repeat(ctx context.Context, worth func(error) bool, try func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := try()
		if !worth(err) {
			return err
		}
		if !delay.Sleep(ctx, pause) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// isUndone reports that no node received a try.
func isUndone(err error) bool { return errors.Is(err, bus.ErrNoResponder) }

// isUnknown reports whether a try may have had an effect: its answer was lost, or the node was stopped during it.
func isUnknown(err error) bool {
	remote, ok := errors.AsType[*api.RemoteError](err)
	return errors.Is(err, events.ErrOutcomeUnknown) || ok && remote.Class == api.ClassUnknown
}

func (c *Client) encode(r api.Request, in any) (data []byte, err error) {
	r.Format, r.Actor = api.RequestFormat, c.actor
	if r.Body, err = events.EncodePayload(in); err != nil {
		return nil, err
	}
	return api.EncodeRequest(r)
}

// once is one try.
func (c *Client) once(ctx context.Context, name operation.Name, data []byte, out any, follow *follower) (events.Seq, error) {
	reply, err := c.b.Request(ctx, string(name), data, c.silence, follow.try())
	if err != nil {
		return 0, err
	}
	var a api.Response
	if err := events.DecodePayload(reply, &a); err != nil {
		return 0, fmt.Errorf("answer to %s: %w", name, err)
	}
	if !a.Error.IsZero() {
		return a.Seq, api.DecodeError(a.Error)
	}
	if err := events.DecodePayload(a.Body, out); err != nil {
		return a.Seq, fmt.Errorf("answer to %s: %w", name, err)
	}
	return a.Seq, nil
}

// Configure implements [api.Service]. The client computes the new configuration from the session's state. The host commits it only if the
// configuration is still the one that it was computed from. A repeat computes it from the configuration before the commit of the
// first try.
func (c *Client) Configure(ctx context.Context, id events.SessionID, req api.ConfigureRequest) error {
	op := &operation.Configure.Row
	key := ulid.Make().String()
	for moved := true; moved; {
		s, err := c.State(ctx, id)
		if err != nil {
			return err
		}
		if first, ok, _ := s.FindRequest(cmp.Or(req.IdempotencyKey, key)); ok { // the state is complete, so the search cannot fail
			if s, err = c.StateAt(ctx, id, first.Seq-1); err != nil {
				return err
			}
		}
		args := api.ConfigureArgs{Previous: s.Config, Current: req.Change(s.Config), Key: req.IdempotencyKey}
		if err := c.Send(ctx, op, id, key, &args, &moved); err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
	}
	return nil
}

// TakeMonitorUpdates implements [api.Service]. It drains the updates that exist when it is called: a delayed copy of
// the request must not drain later ones, whose answer no call receives.
func (c *Client) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	s, err := c.State(ctx, id)
	if err != nil {
		return api.MonitorUpdates{}, fmt.Errorf("take monitor updates: %w", err)
	}
	return c.TakeMonitorUpdatesTo(ctx, id, s.Feed.Sequence)
}

// PutBlob stores a body outside the log that no history names yet, see StoreBlob. It must fit in a request.
func (c *Client) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	return c.StoreBlob(ctx, "", body)
}
