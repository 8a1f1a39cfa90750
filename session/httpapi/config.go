package httpapi

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/operation"
)

// Config of a server.
type Config struct {
	Service operation.Host // required; it holds requests to what their caller may, see [api.WithCaller], as a host does
	Tokens  []Token        // that do not change; they come before Identity
	// Identity has the sources of callers, in the order in which they are asked.
	// One, or a token, is required.
	Identity []Identifier
	Tenant   string   // whose callers are served; others' are refused. Empty: callers of no tenant only
	Origins  []string // of web pages that may read answers, as browsers send them. Defaults to none

	MaxBodyBytes         int64 // of a request. Defaults to 1 MiB
	MaxBlobBytes         int64 // of a body that is stored outside of histories. Defaults to [events.MaxBlobBytes], and is at most that
	MaxHeaderBytes       int   // of a request. Defaults to 32 KiB
	MaxRequests          int   // at once, beside what is held open. Defaults to 256
	MaxRequestsPerCaller int   // likewise, of one caller. Defaults to a quarter of MaxRequests
	MaxStreams           int   // held open at once: streams and requests that wait for a turn. Defaults to 1024
	MaxStreamsPerCaller  int   // likewise, of one caller. Defaults to an eighth of MaxStreams

	// MaxLargeBodies is how many such bodies above MaxBodyBytes are in memory at
	// once, on their way in or out. Defaults to 4. One caller has at most half of them.
	MaxLargeBodies int

	MaxBytesPerMinute int // of one caller, in bodies of requests, answers and streams. Defaults to 1 GiB

	// MaxConnections is how many are open at once. At most half of them are of
	// clients that were not authenticated yet: a new one closes the oldest.
	// Defaults to 2048. A process needs as many files beside its own.
	MaxConnections int
	// MaxConnectionsPerAddress of an IPv4 address or the /64 of an IPv6 one may be
	// open that were not authenticated yet. Defaults to an eighth of MaxConnections.
	MaxConnectionsPerAddress int
	MaxConnectionsPerCaller  int           // whose last request was this caller's. Defaults to a quarter of MaxConnections
	AnonymousTimeout         time.Duration // of a connection on which no request was authenticated. Defaults to 10 s

	TLS *tls.Config // of the connections that Start takes; nil: plain. Its NextProtos should have h2

	ReadHeaderTimeout time.Duration // Defaults to 5 s
	BodyTimeout       time.Duration // until a request's body is here. Defaults to 30 s
	RequestTimeout    time.Duration // until the service has answered. Defaults to 30 s
	WriteTimeout      time.Duration // until the client has taken what is written. Defaults to 30 s
	IdleTimeout       time.Duration // of a connection without a request. Defaults to 2 min
	MaxWait           time.Duration // that a request may wait for a turn. Defaults to 5 min
	Recheck           time.Duration // between looks whether what is held open is still its caller's to have. Defaults to 2 s
	KeepAlive         time.Duration // between comments on a quiet stream. Defaults to 15 s

	Access accesslog.Func // gets a record of each request at its end. Defaults to none
	Logger *zap.Logger    // nil is silent
}

// DefaultConnections is that of [Config.MaxConnections].
const DefaultConnections = 2048

// Defaults.
const (
	defaultBodyBytes   = 1 << 20
	defaultHeaderBytes = 32 << 10
	defaultRequests    = 256
	defaultStreams     = 1024
	defaultLarge       = 4
	defaultMinute      = 1 << 30
)

func (c *Config) complete() error {
	var errs []error
	if c.Service == nil {
		errs = append(errs, errors.New("service is required"))
	}
	errs = append(errs, c.sources(), checkOrigins(c.Origins))
	fill(&errs, "MaxBodyBytes", &c.MaxBodyBytes, defaultBodyBytes)
	fill(&errs, "MaxBlobBytes", &c.MaxBlobBytes, events.MaxBlobBytes)
	c.MaxBlobBytes = min(c.MaxBlobBytes, events.MaxBlobBytes)
	fill(&errs, "MaxLargeBodies", &c.MaxLargeBodies, defaultLarge)
	fill(&errs, "MaxHeaderBytes", &c.MaxHeaderBytes, defaultHeaderBytes)
	fill(&errs, "MaxRequests", &c.MaxRequests, defaultRequests)
	fill(&errs, "MaxRequestsPerCaller", &c.MaxRequestsPerCaller, max(c.MaxRequests/4, 1))
	fill(&errs, "MaxStreams", &c.MaxStreams, defaultStreams)
	fill(&errs, "MaxStreamsPerCaller", &c.MaxStreamsPerCaller, max(c.MaxStreams/8, 1))
	fill(&errs, "MaxBytesPerMinute", &c.MaxBytesPerMinute, defaultMinute)
	fill(&errs, "MaxConnections", &c.MaxConnections, DefaultConnections)
	fill(&errs, "MaxConnectionsPerAddress", &c.MaxConnectionsPerAddress, max(c.MaxConnections/8, 1))
	fill(&errs, "MaxConnectionsPerCaller", &c.MaxConnectionsPerCaller, max(c.MaxConnections/4, 1))
	fill(&errs, "AnonymousTimeout", &c.AnonymousTimeout, 10*time.Second)
	fill(&errs, "ReadHeaderTimeout", &c.ReadHeaderTimeout, 5*time.Second)
	fill(&errs, "BodyTimeout", &c.BodyTimeout, 30*time.Second)
	fill(&errs, "RequestTimeout", &c.RequestTimeout, 30*time.Second)
	fill(&errs, "WriteTimeout", &c.WriteTimeout, 30*time.Second)
	fill(&errs, "IdleTimeout", &c.IdleTimeout, 2*time.Minute)
	fill(&errs, "MaxWait", &c.MaxWait, 5*time.Minute)
	fill(&errs, "Recheck", &c.Recheck, 2*time.Second)
	fill(&errs, "KeepAlive", &c.KeepAlive, 15*time.Second)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return errors.Join(errs...)
}

// sources puts the fixed tokens before the other sources of callers.
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

// checkOrigins refuses what no browser sends, and would match nothing.
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

// fill puts the default where nothing is said, and refuses what is negative.
func fill[T ~int | ~int64](errs *[]error, name string, v *T, otherwise T) {
	switch {
	case *v == 0:
		*v = otherwise
	case *v < 0:
		*errs = append(*errs, fmt.Errorf("%s %v is negative", name, *v))
	}
}
