package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// Config says where the servers are and how assets are made.
type Config struct {
	URL      string        // of the servers, comma-separated; required unless Options connect otherwise
	Options  []nats.Option // credentials, TLS, an in-process server
	Name     string        // of the connection, as the server lists it. Defaults to "lash"
	Prefix   string        // of every asset's name. Defaults to "lash"
	Inbox    string        // prefix of the subjects of replies, which the user may be alone in hearing: "_INBOX", or below it, as nodes answer nowhere else. Defaults to "_INBOX"
	Replicas int           // of every durable stream, at least: 1, 3 or 5. Where shared streams have more, that many. Defaults to 1
	// MaxHot is how many hot sessions there may be before new ones are refused
	// with [ErrFull]. The streams of the account are counted, its ten of others
	// too, now and then. Cold ones come back until there are an eighth more.
	// Defaults to 4000, what one server takes; negative leaves it to the server.
	MaxHot int
	// Timeout bounds one request to the server. Defaults to 5 s.
	Timeout time.Duration
	// Wait has Open wait for servers that do not answer yet, and OpenReader for
	// the assets that the first node makes, until ctx ends.
	Wait    bool
	Waiting func(what string) // is called once a second with what Open waits for. Optional
	Logger  *zap.Logger       // nil is silent
}

func (c *Config) defaults() error {
	var errs []error
	c.Name = cmp.Or(c.Name, "lash")
	c.Prefix = cmp.Or(c.Prefix, "lash")
	c.Inbox = cmp.Or(c.Inbox, inboxes)
	if c.Inbox != inboxes && !isInbox(c.Inbox) {
		errs = append(errs, fmt.Errorf("inbox: %q, want %s or %s.NAME", c.Inbox, inboxes, inboxes))
	}
	if err := events.CheckToken("prefix", c.Prefix); err != nil {
		errs = append(errs, err)
	}
	c.Replicas = cmp.Or(c.Replicas, 1)
	if c.Replicas != 1 && c.Replicas != 3 && c.Replicas != 5 {
		errs = append(errs, fmt.Errorf("replicas: %d, want 1, 3 or 5", c.Replicas))
	}
	c.MaxHot = cmp.Or(c.MaxHot, 4000)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	if c.Waiting == nil {
		c.Waiting = func(string) {}
	}
	return errors.Join(errs...)
}

// Bus is a connection, and a second one for reads that move much, with its assets made. It is safe for concurrent use.
type Bus struct {
	cfg   Config
	names names
	nc    *nats.Conn
	js    jetstream.JetStream
	log   *zap.Logger

	reader    bool // makes and changes nothing
	replicas  int  // of what it makes
	conflicts atomic.Int64
	hot       hotCount
	silence   silence
	bulk      bulk
	hints     hints
	ways      ways
	waiting   *waiting // nil: it is open

	directory jetstream.KeyValue
	catalogs  jetstream.KeyValue
	snapshots jetstream.KeyValue
	blobs     jetstream.ObjectStore
	archives  jetstream.Stream // nil: a reader's, of a store of before there were archives
}

// Open connects and makes sure that every shared asset exists. Creating is
// idempotent: any number of nodes may do it at once. It raises the replicas of
// shared streams to [Config.Replicas], and never lowers them.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	return open(ctx, cfg, (*Bus).ensure)
}

// OpenReader connects to assets that exist and makes or changes none, as an
// auditor must, who may not be allowed to. Of the bus it gives, only what
// reads is of use. Where a shared asset is missing the error is [ErrNotFound].
func OpenReader(ctx context.Context, cfg Config) (*Bus, error) {
	return open(ctx, cfg, (*Bus).find)
}

func open(ctx context.Context, cfg Config, assets func(*Bus, context.Context) error) (*Bus, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	w := &waiting{cfg: cfg, said: time.Now()}
	l, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.checkInbox(cfg); err != nil {
		l.nc.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b := &Bus{cfg: cfg, names: names{cfg.Prefix}, nc: l.nc, js: l.js, log: cfg.Logger.Named("bus"), replicas: cfg.Replicas, ways: ways{seed: maphash.MakeSeed()}}
	b.waiting = w
	err = w.forAssets(ctx, func() error { return assets(b, ctx) })
	b.waiting = nil
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	return b, nil
}

func (c *Config) connect() (link, error) {
	opts := append([]nats.Option{
		nats.Name(c.Name), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(c.Timeout),
		nats.CustomInboxPrefix(c.Inbox),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut), nats.SyncQueueLen(2 * batchMessages),
	}, c.Options...)
	nc, err := nats.Connect(c.URL, opts...)
	if err != nil {
		if errors.As(err, new(*url.Error)) {
			err = errors.New("this is no URL") // the error quotes parts of it, where a password may be
		}
		return link{}, fmt.Errorf("connect to %s: %w", Redacted(c.URL), err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(c.Timeout))
	if err != nil {
		nc.Close()
		return link{}, fmt.Errorf("open bus: %w", err)
	}
	return link{nc, js}, nil
}

// A server whose host is gone says nothing: after so many pings without an
// answer the connection is made again, to another one. The library's defaults take six minutes.
const (
	pingEvery = 2 * time.Second
	pingsOut  = 2
)

// Redacted is a list of servers' URLs without the users, passwords and tokens in
// them. A comma may be part of a password: what it may belong to is left out too.
func Redacted(urls string) string {
	list := strings.Split(urls, ",")
	inside := false // list[i] may be in the middle of a URL's password
	for i, u := range slices.Backward(list) {
		scheme, _, whole := strings.Cut(u, "://")
		at := strings.LastIndexByte(u, '@')
		if at < 0 && !inside {
			continue
		}
		inside = !whole
		list[i] = "xxxxx"
		if whole {
			list[i] = scheme + "://xxxxx"
		}
		if at >= 0 {
			list[i] += u[at:]
		}
	}
	return strings.Join(list, ",")
}

// Close drops the connections. What was acknowledged stays.
func (b *Bus) Close() {
	b.nc.Close()
	b.closeBulk()
}

// Replicas is how many shared streams have, and the streams of sessions that the bus makes: [Config.Replicas], or
// what it found where that was more.
func (b *Bus) Replicas() int { return b.replicas }

// Conn is the connection, for measurements beside the bus.
func (b *Bus) Conn() *nats.Conn { return b.nc }
