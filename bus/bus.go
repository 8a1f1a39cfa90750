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
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// Config says where the servers are and how assets are made.
type Config struct {
	URL      string        // of the servers, comma-separated; required unless Options connect otherwise
	Options  []nats.Option // credentials, TLS, an in-process server
	Name     string        // of the connection, as the server lists it. Defaults to "lash"
	Prefix   string        // of every asset's name. Defaults to [events.DefaultPrefix]
	Inbox    string        // prefix of reply subjects, "_INBOX" or "_INBOX.NAME": the user may have the right to this one only. Defaults to "_INBOX"
	Replicas int           // of every durable stream: 1, 3 or 5; more where shared streams have more. Defaults to 1
	// MaxHot limits the hot sessions: above it new sessions are refused with [ErrFull]. The count is of all
	// streams of the account, the shared ones included, and is up to 10 s old. Cold sessions become hot up to an eighth
	// more. Defaults to 4000, what one server takes; negative leaves the limit to the server.
	MaxHot int
	// Free is how many bytes are free on the disk of the servers, where this process knows that. Below [KeptFree] little is stored, and at
	// last nothing: requests are refused with [events.ErrStorage] before anything is sent, as a server whose disk is full takes nothing until it
	// restarts.
	Free func() (int64, error)
	// Timeout bounds one request to the server. Defaults to 5 s.
	Timeout time.Duration
	// Wait makes Open wait for servers that do not answer yet, and OpenReader for the assets that the first node
	// makes, until ctx ends.
	Wait    bool
	Keys    *bodykey.Keys     // encrypt and decrypt what sessions say. Defaults to none: it is stored plain
	Waiting func(what string) // called once a second with what Open waits for. Optional
	// Pending is called when a request starts, and its result when the request has ended, with its retries. Requests may
	// overlap, and a request may consist of others. Optional.
	Pending func() (ended func())
	Logger  *zap.Logger // nil is silent
}

func (c *Config) defaults() error {
	var errs []error
	c.Name = cmp.Or(c.Name, "lash")
	c.Prefix = cmp.Or(c.Prefix, events.DefaultPrefix)
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

// Bus is a connection, a second one for large reads, one for each plugin, and the assets. It is safe for concurrent use.
type Bus struct {
	cfg   Config
	names names
	nc    *nats.Conn
	js    jetstream.JetStream
	log   *zap.Logger

	reader       bool // it makes and changes nothing
	replicas     int  // of the streams that it makes
	replicaLag   time.Duration
	linkRetry    time.Duration
	conflicts    atomic.Int64
	hot          streamCount
	unanswered   unansweredRequests
	refusals     refusals
	secondary    extraLink
	pluginLinks  pluginLinks
	streams      streamCache
	incarnations incarnations
	removals     removalListeners
	priorities   priorities
	bodies       bodies
	lately       storedLately
	waiting      *waiting // nil once the bus is open
	closing      atomic.Bool
	clock        clock
	storingBytes atomic.Int64       // of requests that are under way
	work         sync.WaitGroup     // goroutines that end with Close
	stop         context.CancelFunc // ends work; nil while the bus opens
	ended        chan error         // has an element once servers have closed the primary connection for good

	pluginEvents atomic.Bool // the fleet has plugins that observe sessions

	directory jetstream.KeyValue
	catalogs  jetstream.KeyValue
	snapshots jetstream.KeyValue
	manifests jetstream.KeyValue
	index     jetstream.KeyValue // nil: a reader, of a store without an index
	blobs     jetstream.ObjectStore
	archives  jetstream.Stream // nil: a reader, of a store without archives
}

// Open connects, and creates the shared assets that are missing. Any number of nodes may open a store at once. Open raises the
// replicas of shared streams to [Config.Replicas], and never lowers them. Error: [bodykey.ErrWrong] where [Config.Keys] lacks the
// key with which the store's bodies are encrypted.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	return open(ctx, cfg, (*Bus).ensure)
}

// OpenReader connects to existing assets and makes or changes none: its user may have the right to read only. Only
// the reading methods of the bus work. [ErrNotFound]: a shared asset is missing.
func OpenReader(ctx context.Context, cfg Config) (*Bus, error) {
	return open(ctx, cfg, (*Bus).findAssets)
}

func open(ctx context.Context, cfg Config, assets func(*Bus, context.Context) error) (*Bus, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	w := &waiting{cfg: cfg, reported: time.Now()}
	l, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.checkInbox(cfg); err != nil {
		l.nc.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b := &Bus{
		cfg: cfg, names: names{cfg.Prefix}, nc: l.nc, js: l.js, log: cfg.Logger.Named("bus"), replicas: cfg.Replicas, replicaLag: replicaLag, linkRetry: linkRetry,
		streams: streamCache{newCache[cachedStream](maxCachedStreams)}, incarnations: incarnations{cache: newCache[knownIncarnation](maxIncarnations)},
		bodies: bodies{keys: cfg.Keys, marks: &marks{Cache: newCache[events.Mark](maxCachedStreams)}},
		ended:  make(chan error, 1), priorities: priorities{seed: maphash.MakeSeed()},
	}
	b.incarnations.reconnects = b.Reconnects
	l.nc.SetClosedHandler(b.endedBy(l.nc.ClosedHandler()))
	b.waiting = w
	err = w.forAssets(ctx, func() error { return assets(b, ctx) })
	if err == nil && !b.reader { // whose user may have no right to ask
		b.hot.count(ctx, b)
		err = b.askTime(ctx)
	}
	b.waiting = nil
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("open bus: %w", err)
	}
	var work context.Context
	work, b.stop = context.WithCancel(context.Background())
	if !b.reader {
		b.work.Go(func() { b.followTime(work) })
	}
	b.watchKeys(work)
	return b, nil
}

func (c *Config) connect() (link, error) {
	opts := append([]nats.Option{
		nats.Name(c.Name), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.Timeout(c.Timeout),
		nats.CustomInboxPrefix(c.Inbox),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut), nats.SyncQueueLen(2 * batchMessages),
	}, c.Options...)
	opts = append(opts, patience)
	nc, err := nats.Connect(c.URL, opts...)
	if err != nil {
		if errors.As(err, new(*url.Error)) {
			err = errors.New("this is no URL") // the error quotes parts of the URL, which may be a password
		}
		return link{}, fmt.Errorf("connect to %s: %w", WithoutPasswords(c.URL), err)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(c.Timeout))
	if err != nil {
		nc.Close()
		return link{}, fmt.Errorf("open bus: %w", err)
	}
	return link{nc, js}, nil
}

// A lost host closes no connection. After this many pings without an answer the client connects to another server.
// The library's defaults take six minutes.
const (
	pingEvery = 2 * time.Second
	pingsOut  = 2
)

// WithoutPasswords is a list of server URLs without users, passwords and tokens. A comma may be part of a password, so the
// parts that may belong to one are removed too.
func WithoutPasswords(urls string) string {
	list := strings.Split(urls, ",")
	inside := false // list[i] may be inside the password of a URL
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

// Close closes the connections.
func (b *Bus) Close() {
	b.closing.Store(true)
	if b.stop != nil {
		b.stop()
	}
	b.nc.Close()
	b.secondary.close()
	for _, e := range b.pluginLinks.all() {
		e.close()
	}
	b.work.Wait()
}

// Replicas is how many replicas shared streams and the streams of sessions have: [Config.Replicas], or the number
// that the bus found where that is larger.
func (b *Bus) Replicas() int { return b.replicas }

// Connected reports whether the primary connection is up.
func (b *Bus) Connected() bool { return b.nc.IsConnected() }

// Ended has an element, the reason, once the primary connection is closed for good, and not by [Bus.Close]: servers refused its
// credentials for [rejectedFor], or something that it sent. No method works from then on: open another bus.
func (b *Bus) Ended() <-chan error { return b.ended }

// endedBy handles the end of the primary connection, after the handler that was there before.
func (b *Bus) endedBy(before nats.ConnHandler) nats.ConnHandler {
	return func(nc *nats.Conn) {
		if before != nil {
			before(nc)
		}
		if b.closing.Load() {
			return
		}
		err := cmp.Or(nc.LastError(), nats.ErrConnectionClosed)
		b.log.Error("the servers have closed the connection for good", zap.Error(err))
		b.ended <- err // once: a connection is closed once
	}
}

// Closed reports whether the primary connection was closed for good.
func (b *Bus) Closed() bool { return b.nc.IsClosed() }

// Conn is the primary connection, for measurements and tests.
func (b *Bus) Conn() *nats.Conn { return b.nc }
