package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
)

// Config is the input of [New].
type Config struct {
	Service operation.Host // required; it checks the rights of callers, see [api.WithCaller], as a host does
	Tokens  []Token        // fixed tokens; checked before Identity
	// Identity has the identifiers, in the order of their calls. At least one, or a token, is required.
	Identity []Identifier
	Tenant   string   // the server refuses callers of other tenants. Empty: serves callers without a tenant
	Origins  []string // of web pages that may read responses, as browsers send them. Defaults to none

	MaxBodyBytes         int64 // of a request; one that creates a session may have MaxBlobBytes, for a snapshot. Defaults to 1 MiB
	MaxBlobBytes         int64 // of a stored body. Defaults to [events.MaxBlobBytes], which is also the upper bound
	MaxHeaderBytes       int   // of a request. Defaults to 32 KiB
	MaxRequests          int   // concurrent, without those that stay open. Defaults to 256
	MaxRequestsPerCaller int   // likewise, of one caller. Defaults to a quarter of MaxRequests
	MaxStreams           int   // concurrent streams and requests that wait for a turn. Defaults to 1024
	MaxStreamsPerCaller  int   // likewise, of one caller. Defaults to an eighth of MaxStreams

	// Memory is what bodies above 64 KiB, of requests and of answers, may have at once: those of a caller, and all. Defaults to a sixth of
	// the machine's memory, of which one caller has at most half.
	Memory *memory.Pool

	// MaxBytesPerMinute limits the bodies of requests, responses and streams of one caller, and those of one IPv4
	// address or IPv6 /64 in requests without a caller. Defaults to 1 GiB.
	MaxBytesPerMinute int

	// MaxConnections is the number of open connections. At most half of them are unauthenticated: above that a new
	// one closes the oldest. Defaults to 2048. Each connection needs a file descriptor.
	MaxConnections int
	// MaxConnectionsPerAddress limits the unauthenticated connections of an IPv4 address or an IPv6 /64. Defaults to
	// an eighth of MaxConnections.
	MaxConnectionsPerAddress int
	MaxConnectionsPerCaller  int           // connections whose last request was of this caller. Defaults to a quarter of MaxConnections
	AnonymousTimeout         time.Duration // lifetime of a connection without an authenticated request. Defaults to 10 s

	// Proxies are the addresses of trusted proxies: the client of their requests is the one that ProxyHeader names, see
	// [XForwardedFor]. Their connections have no limit of an address. Defaults to none: the header is ignored.
	Proxies     []netip.Prefix
	ProxyHeader string // that the proxies write, [XForwardedFor] or [Forwarded]. Defaults to XForwardedFor

	TLS *tls.Config // of the connections that Start accepts; nil: no TLS. Its NextProtos should have h2

	ReadHeaderTimeout time.Duration // Defaults to 5 s
	BodyTimeout       time.Duration // to read a request's body. Defaults to 30 s
	RequestTimeout    time.Duration // for the service to answer. Defaults to 30 s
	WriteTimeout      time.Duration // for the client to read a write. Defaults to 30 s
	IdleTimeout       time.Duration // of a connection without a request. Defaults to 2 min
	MaxWait           time.Duration // longest wait of a request for a turn. Defaults to 5 min
	Recheck           time.Duration // interval of the checks whether the caller of an open request still has its rights. Defaults to 2 s
	KeepAlive         time.Duration // interval of comments on a stream without messages. Defaults to 15 s

	// Agents makes the handler of /v1/mcp, which gets the requests of callers with the right to read. api is the server.
	// nil: there is no such path.
	Agents func(api http.Handler) http.Handler
	// Redactions returns the records of a session's redactions, which its events name. nil: events do not say who redacted them.
	Redactions func(ctx context.Context, session events.SessionID) ([]events.RedactionRecord, error)
	// Page serves the path / and those below /page/ to anyone: the files of a web page, without data of sessions.
	// nil: there are no such paths.
	Page http.Handler
	// Prices returns what tokens cost, as JSON, for GET /v1/prices: an object with the list models, as workers/telemetry
	// has it. nil: there is no such path.
	Prices func() json.RawMessage
	// Source is the name of the source of the sessions, for GET /v1/source: an object with the text name. It may have the
	// path of a file, so only callers with the right to read get it. Empty: there is no such path.
	Source string

	// Refused receives the reason of each connection that is closed before a request on it was authenticated, or with one that
	// could not be read, see [RefusedConnections]. Calls may overlap. Defaults to none.
	Refused func(reason string)

	// Access receives a record of each request at its end, and of each connection whose handshake failed or whose request
	// could not be read. Defaults to none.
	Access accesslog.Func
	Logger *zap.Logger // nil is silent
}

// refused passes a reason to Refused.
func (c *Config) refused(reason string) {
	if c.Refused != nil {
		c.Refused(reason)
	}
}

// DefaultConnections is the default of [Config.MaxConnections].
const DefaultConnections = 2048

// Defaults.
const (
	defaultBodyBytes   = 1 << 20
	defaultHeaderBytes = 32 << 10
	defaultRequests    = 256
	defaultStreams     = 1024
	defaultMinute      = 1 << 30
)

func (c *Config) complete() error {
	var errs []error
	if c.Service == nil {
		errs = append(errs, errors.New("service is required"))
	}
	errs = append(errs, c.sources(), checkOrigins(c.Origins))
	c.ProxyHeader = cmp.Or(c.ProxyHeader, XForwardedFor)
	if c.ProxyHeader != XForwardedFor && c.ProxyHeader != Forwarded {
		errs = append(errs, fmt.Errorf("ProxyHeader: is %q, want %s or %s", c.ProxyHeader, XForwardedFor, Forwarded))
	}
	if c.Memory == nil {
		c.Memory = memory.Divide(0).Requests
	}
	errs = append(
		errs, fill("MaxBodyBytes", &c.MaxBodyBytes, defaultBodyBytes), fill("MaxBlobBytes", &c.MaxBlobBytes, events.MaxBlobBytes),
		fill("MaxHeaderBytes", &c.MaxHeaderBytes, defaultHeaderBytes), fill("MaxRequests", &c.MaxRequests, defaultRequests),
		fill("MaxStreams", &c.MaxStreams, defaultStreams), fill("MaxBytesPerMinute", &c.MaxBytesPerMinute, defaultMinute),
		fill("MaxConnections", &c.MaxConnections, DefaultConnections), fill("AnonymousTimeout", &c.AnonymousTimeout, 10*time.Second),
		fill("ReadHeaderTimeout", &c.ReadHeaderTimeout, 5*time.Second), fill("BodyTimeout", &c.BodyTimeout, 30*time.Second),
		fill("RequestTimeout", &c.RequestTimeout, 30*time.Second), fill("WriteTimeout", &c.WriteTimeout, 30*time.Second),
		fill("IdleTimeout", &c.IdleTimeout, 2*time.Minute), fill("MaxWait", &c.MaxWait, 5*time.Minute),
		fill("Recheck", &c.Recheck, 2*time.Second), fill("KeepAlive", &c.KeepAlive, 15*time.Second),
	)
	errs = append( // the shares of one caller or address
		errs, fill("MaxRequestsPerCaller", &c.MaxRequestsPerCaller, max(c.MaxRequests/4, 1)), fill("MaxStreamsPerCaller", &c.MaxStreamsPerCaller, max(c.MaxStreams/8, 1)),
		fill("MaxConnectionsPerAddress", &c.MaxConnectionsPerAddress, max(c.MaxConnections/8, 1)),
		fill("MaxConnectionsPerCaller", &c.MaxConnectionsPerCaller, max(c.MaxConnections/4, 1)),
	)
	c.MaxBlobBytes = min(c.MaxBlobBytes, events.MaxBlobBytes)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return errors.Join(errs...)
}

// sources puts the fixed tokens before the other identifiers.
func (c *Config) sources() error {
	if len(c.Tokens) > 0 {
		fixed, err := NewTokens(c.Tokens)
		if err != nil {
			return err
		}
		c.Identity = append([]Identifier{fixed}, c.Identity...)
	}
	if len(c.Identity) == 0 {
		return errors.New("a token is required, or another source of callers")
	}
	if c.Tenant == "" {
		return nil
	}
	return events.CheckToken("tenant", c.Tenant)
}

// checkOrigins refuses a text that no browser sends as an origin.
func checkOrigins(list []string) error {
	var errs []error
	for _, origin := range list {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || origin != strings.ToLower(u.Scheme+"://"+u.Host) {
			errs = append(errs, fmt.Errorf("origin %q: want scheme://host or scheme://host:port in lower case, as https://example.com", origin))
		}
	}
	return errors.Join(errs...)
}

// fill sets the default of a zero value, and refuses a negative one.
func fill[T ~int | ~int64](name string, v *T, otherwise T) error {
	if *v < 0 {
		return fmt.Errorf("%s %v is negative", name, *v)
	}
	*v = cmp.Or(*v, otherwise)
	return nil
}
