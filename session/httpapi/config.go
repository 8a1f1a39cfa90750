package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Service is the session service, and what a watcher of a turn needs beside it.
type Service interface {
	api.Service
	// WatchTurn gives the events of a turn that was submitted before, from its
	// first to done, and writes nothing. One that nobody asked for is [api.ErrUnknownTurn].
	WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error)
}

// Config of a server.
type Config struct {
	Service Service  // required; it holds requests to what their caller may, see [api.WithCaller], as a host does
	Tokens  []Token  // at least one
	Origins []string // of web pages that may read answers, as browsers send them. Defaults to none

	MaxBodyBytes        int64 // of a request. Defaults to 1 MiB
	MaxHeaderBytes      int   // of a request. Defaults to 32 KiB
	MaxRequests         int   // at once, beside what is held open. Defaults to 256
	MaxRequestsPerToken int   // likewise, with one token. Defaults to a quarter of MaxRequests
	MaxStreams          int   // held open at once: streams and requests that wait for a turn. Defaults to 1024
	MaxStreamsPerToken  int   // likewise, with one token. Defaults to 128

	ReadHeaderTimeout time.Duration // Defaults to 5 s
	BodyTimeout       time.Duration // until a request's body is here. Defaults to 30 s
	RequestTimeout    time.Duration // until the service has answered. Defaults to 30 s
	WriteTimeout      time.Duration // until the client has taken what is written. Defaults to 30 s
	IdleTimeout       time.Duration // of a connection without a request. Defaults to 2 min
	MaxWait           time.Duration // that a request may wait for a turn. Defaults to 5 min
	KeepAlive         time.Duration // between comments on a quiet stream. Defaults to 15 s

	Logger *zap.Logger // nil is silent
}

// Defaults.
const (
	defaultBodyBytes   = 1 << 20
	defaultHeaderBytes = 32 << 10
	defaultRequests    = 256
	defaultStreams     = 1024
	defaultPerToken    = 128
)

func (c *Config) complete() error {
	var errs []error
	if c.Service == nil {
		errs = append(errs, errors.New("service is required"))
	}
	errs = append(errs, checkTokens(c.Tokens), checkOrigins(c.Origins))
	fill(&errs, "MaxBodyBytes", &c.MaxBodyBytes, defaultBodyBytes)
	fill(&errs, "MaxHeaderBytes", &c.MaxHeaderBytes, defaultHeaderBytes)
	fill(&errs, "MaxRequests", &c.MaxRequests, defaultRequests)
	fill(&errs, "MaxRequestsPerToken", &c.MaxRequestsPerToken, max(c.MaxRequests/4, 1))
	fill(&errs, "MaxStreams", &c.MaxStreams, defaultStreams)
	fill(&errs, "MaxStreamsPerToken", &c.MaxStreamsPerToken, defaultPerToken)
	fill(&errs, "ReadHeaderTimeout", &c.ReadHeaderTimeout, 5*time.Second)
	fill(&errs, "BodyTimeout", &c.BodyTimeout, 30*time.Second)
	fill(&errs, "RequestTimeout", &c.RequestTimeout, 30*time.Second)
	fill(&errs, "WriteTimeout", &c.WriteTimeout, 30*time.Second)
	fill(&errs, "IdleTimeout", &c.IdleTimeout, 2*time.Minute)
	fill(&errs, "MaxWait", &c.MaxWait, 5*time.Minute)
	fill(&errs, "KeepAlive", &c.KeepAlive, 15*time.Second)
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	return errors.Join(errs...)
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
