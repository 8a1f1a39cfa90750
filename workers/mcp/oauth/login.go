package oauth

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// Person is who allows a login.
type Person struct {
	// Show shows the address at which the login is allowed, and may open it in a browser.
	Show func(address string) error
	// Pasted receives addresses at which a browser on another machine ended; nil: none.
	Pasted <-chan string
}

// ErrNoLogin is a server that answers without a token.
var ErrNoLogin = errors.New("the server takes requests without a login")

// Login lets a person allow this client to use a server, and writes the tokens to the file. It replaces an earlier login. Errors:
// [ErrNoLogin], and what the servers or the person refused.
func Login(ctx context.Context, endpoint string, cfg Config, p Person) error {
	client := &http.Client{Timeout: requestWait}
	if err := cfg.Check(); err != nil {
		return err
	}
	old, err := read(cfg.File)
	if err != nil {
		return err
	}
	if old.Server != endpoint {
		old = tokens{}
	}
	request, refusal, err := refused(ctx, client, endpoint, &old) //nolint:bodyclose // it has none
	if err != nil {
		return err
	}
	if request.URL, err = url.Parse(resourceOf(ctx, client, endpoint, refusal)); err != nil {
		return err
	}
	redirect := cmp.Or(cfg.Redirect, "http://127.0.0.1:0/callback")
	back, err := listen(ctx, redirect)
	if err != nil {
		return err
	}
	defer back.stop()
	written, resource := errors.New("the authorization server gave no token"), ""
	c := &auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back.address, RequestRefreshToken: true, Client: client, AcceptUnadvertisedIss: true,
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			if at, err := url.Parse(args.URL); err == nil {
				resource = at.Query().Get("resource")
			}
			return back.allowedAt(ctx, args.URL, p)
		},
		ScopeFilter: func(named []string) []string {
			return union(union(union(nil, named), cfg.Scopes), old.Scopes)
		},
		NewTokenSource: func(_ context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			written = change(ctx, cfg.File, func(f *tokens) error {
				*f = tokens{Server: endpoint, ClientID: c.ClientID, ClientSecret: c.ClientSecret, TokenURL: c.Endpoint.TokenURL, AuthStyle: c.Endpoint.AuthStyle, Scopes: c.Scopes, Resource: resource, LoggedIn: time.Now(), Token: *t}
				return nil
			})
			return oauth2.StaticTokenSource(t), nil
		},
	}
	if cfg.MetadataURL != "" {
		c.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: cfg.MetadataURL}
	}
	if cfg.ClientID != "" {
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: cfg.ClientID, Issuer: cfg.Issuer}
		if cfg.ClientSecret != "" {
			c.PreregisteredClient.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: cfg.ClientSecret}
		}
	} else {
		c.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "lash", RedirectURIs: []string{back.address}, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
	}
	handler, err := auth.NewAuthorizationCodeHandler(c)
	if err == nil {
		err = handler.Authorize(ctx, request, refusal)
	}
	if err == nil {
		return written
	}
	err = withoutBody(err)
	if text := err.Error(); strings.Contains(text, "registration failed") || strings.Contains(text, "registration methods") {
		err = fmt.Errorf("%w: register a client there by hand, and give its client_id in lash.oauth", err)
	}
	return err
}

// refused is a request that the server refused for want of a login: one that a [Source] kept, or a first one without a token.
func refused(ctx context.Context, client *http.Client, endpoint string, kept *tokens) (*http.Request, *http.Response, error) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"lash","version":"0"}}}`
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader([]byte(hello)))
	if err != nil {
		return nil, nil, err
	}
	if kept.Refused != 0 {
		return request, &http.Response{StatusCode: kept.Refused, Header: http.Header{challengeHeader: kept.Challenges}, Body: http.NoBody, Request: request}, nil
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16)
	_ = answer.Body.Close()
	answer.Body = http.NoBody
	switch {
	case answer.StatusCode == http.StatusUnauthorized:
		return request, answer, nil
	case answer.StatusCode < http.StatusBadRequest:
		return nil, nil, ErrNoLogin
	}
	return nil, nil, fmt.Errorf("the server answers %s, want 401, which asks for a login", answer.Status)
}

// comingBack waits for a browser to come back from the authorization server.
type comingBack struct {
	address string
	server  *http.Server
	results chan result
	state   atomic.Value // string of the request that was shown
}

type result struct {
	auth auth.AuthorizationResult
	err  error
}

// listen listens at the address of this machine where browsers come back to.
func listen(ctx context.Context, redirect string) (*comingBack, error) {
	at, err := url.Parse(redirect)
	if err != nil || at.Scheme != "http" || at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback() {
		return nil, fmt.Errorf("redirect %q: want http and an address of this machine, as http://127.0.0.1:8123/callback", redirect)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "0")))
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	at.Host = net.JoinHostPort(at.Hostname(), port)
	b := &comingBack{address: at.String(), results: make(chan result, 1)}
	b.server = &http.Server{ReadHeaderTimeout: requestWait, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, ok := resultOf(r.URL)
		if r.URL.Path != at.Path || !ok || got.auth.State != b.state.Load() { // other pages of the browser reach this address, too
			http.NotFound(w, r)
			return
		}
		select {
		case b.results <- got:
		default: // a second one
		}
		text := "The login is done: this page can be closed."
		if got.err != nil {
			text = "The login was refused: the terminal says why."
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text+"\n")
	})}
	go func() { _ = b.server.Serve(l) }() // ends with stop
	return b, nil
}

func (b *comingBack) stop() { _ = b.server.Close() }

// allowedAt shows an address, and waits for a browser here, or for the address at which one elsewhere ended.
func (b *comingBack) allowedAt(ctx context.Context, address string, p Person) (*auth.AuthorizationResult, error) {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" { // it comes from the server, and may be opened
		return nil, errors.New("the authorization server's address for logins is no address of the web")
	}
	b.state.Store(at.Query().Get("state"))
	if err := p.Show(address); err != nil {
		return nil, err
	}
	for pasted := p.Pasted; ; {
		select {
		case got := <-b.results:
			return &got.auth, got.err
		case text, open := <-pasted:
			if !open {
				pasted = nil
				continue
			}
			at, err := url.Parse(text)
			if err != nil {
				return nil, errors.New("what was pasted is no address")
			}
			got, ok := resultOf(at)
			if !ok {
				return nil, errors.New("the address that was pasted has no code: paste the one at which the browser ended")
			}
			return &got.auth, got.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// resultOf reads the address of a browser that came back.
func resultOf(at *url.URL) (got result, ok bool) {
	q := at.Query()
	got.auth = auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}
	if code := q.Get("error"); code != "" {
		got.err = fmt.Errorf("the authorization server refuses: %.60s: %.300s", code, q.Get("error_description"))
	}
	return got, got.auth.Code != "" || got.err != nil
}
