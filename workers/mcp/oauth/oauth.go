// Package oauth makes a node an OAuth client of an MCP server over HTTP, as the protocol's authorization says (version 2025-11-25):
// it finds the authorization server, registers, and gets tokens by the authorization code with PKCE, which needs a person
// once, or by client credentials, which need none.
//
// [Login] writes what a person allowed to a file of its own, and a [Source] reads it for each request, renews the access token before it expires,
// and after a refusal. Nodes that share the file renew one after the other. Errors and logs never have a token or a secret. A
// Source never waits for a person: where one is needed, it returns [ErrLogin].
package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
)

// ErrLogin is a request that a person has to allow before.
var ErrLogin = errors.New("a login is needed")

// Config is how a server knows this client. The zero value registers a client at the authorization server.
type Config struct {
	ClientID     string   `json:"client_id"`           // of a client that is registered there
	ClientSecret string   `json:"client_secret"`       // its secret, if it has one
	MetadataURL  string   `json:"client_metadata_url"` // HTTPS address of the client's metadata document, for servers that take those
	Issuer       string   `json:"issuer"`              // of the authorization server: a secret goes to no other
	Scopes       []string `json:"scopes"`              // to ask for, beside those that the server names
	Machine      bool     `json:"machine"`             // client credentials, without a person: needs ClientID and ClientSecret
	Redirect     string   `json:"redirect"`            // where a browser comes back to, on this machine. Defaults to a free port of 127.0.0.1
	File         string   `json:"file"`                // of the tokens, which nobody else may read
}

// LoggedIn is the time of the last login; zero: there was none, or the file cannot be read.
func (c *Config) LoggedIn() time.Time {
	f, err := read(c.File)
	if err != nil {
		return time.Time{}
	}
	return f.LoggedIn
}

// Check refuses credentials that are incomplete, and a secret that any server could name a receiver for.
func (c *Config) Check() error {
	switch {
	case c.Machine && (c.ClientID == "" || c.ClientSecret == ""):
		return errors.New("machine needs client_id and client_secret")
	case c.ClientSecret != "" && c.Issuer == "":
		return errors.New("client_secret needs the issuer that may have it")
	}
	return nil
}

// Source has the tokens for one server. It is safe for concurrent use.
type Source struct {
	cfg      Config
	endpoint string
	client   *http.Client

	mu      sync.Mutex
	machine *extauth.ClientCredentialsHandler // nil without Machine
	granted oauth2.TokenSource                // of the machine; nil before the first refusal
}

// requestWait limits each request to an authorization server.
const requestWait = 30 * time.Second

// NewSource makes the source for the server at an endpoint. Errors: credentials of a machine that are incomplete.
func NewSource(endpoint string, cfg Config) (*Source, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	s := &Source{cfg: cfg, endpoint: endpoint, client: &http.Client{Timeout: requestWait}}
	if !cfg.Machine {
		return s, nil
	}
	var err error
	s.machine, err = extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{
		Credentials: &oauthex.ClientCredentials{ClientID: cfg.ClientID, Issuer: cfg.Issuer, ClientSecretAuth: &oauthex.ClientSecretAuth{ClientSecret: cfg.ClientSecret}},
		HTTPClient:  s.client,
	})
	return s, err
}

// Refusal is a request that was not sent, or was refused, for want of a token.
type Refusal struct {
	Status int // of the refusal; 401 where the request was not sent
	Err    error
}

// Error implements error.
func (r *Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the cause: [ErrLogin], or one of the authorization server.
func (r *Refusal) Unwrap() error { return r.Err }

// Do sends a request with the token that there is, and once again with another one after a refusal. Errors: those of send; a [*Refusal].
func (s *Source) Do(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	token, err := s.Token(r.Context())
	if err != nil {
		return nil, &Refusal{http.StatusUnauthorized, err}
	}
	answer, err := send(authorized(r, token))
	if err != nil || !wantsAuthorization(answer) {
		return answer, err
	}
	_ = answer.Body.Close()
	if token, err = s.Renew(r.Context(), token, answer); err != nil {
		return nil, &Refusal{answer.StatusCode, err}
	}
	again := authorized(r, token)
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	return send(again)
}

// authorized is a request with a token; empty: without one.
func authorized(r *http.Request, token string) *http.Request {
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// Token is the access token of the next request, renewed if it is about to expire; empty where there is none yet. Errors: [ErrLogin], and those
// of the authorization server.
func (s *Source) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Machine {
		return s.machineToken()
	}
	f, err := read(s.cfg.File)
	if err != nil || f.Server != s.endpoint || f.Token.AccessToken == "" { // without one the server decides
		return "", err
	}
	if f.Token.Valid() {
		return f.Token.AccessToken, nil
	}
	return s.renew(ctx, f.Token.AccessToken)
}

// Renew is Token after the server refused a request that had a token, or none where it is empty, with 401, or with 403 for want of a scope.
// The token is another one, unless there is an error: [ErrLogin], or one of the authorization server.
func (s *Source) Renew(ctx context.Context, refused string, answer *http.Response) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Machine {
		answer.Body = http.NoBody
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, resourceOf(ctx, s.client, s.endpoint, answer), http.NoBody)
		if err != nil {
			return "", err
		}
		if err := s.machine.Authorize(context.WithoutCancel(ctx), request, answer); err != nil { // its tokens are used after this request
			return "", withoutBody(err)
		}
		if s.granted, err = s.machine.TokenSource(ctx); err != nil {
			return "", err
		}
		return s.machineToken()
	}
	if answer.StatusCode == http.StatusUnauthorized {
		token, err := s.renew(ctx, refused)
		if err == nil || !errors.Is(err, ErrLogin) {
			return token, err
		}
	}
	return "", errors.Join(ErrLogin, s.keep(ctx, answer))
}

// machineToken is the access token of the machine. The caller has mu.
func (s *Source) machineToken() (string, error) {
	if s.granted == nil {
		return "", nil
	}
	t, err := s.granted.Token()
	if err != nil {
		return "", withoutBody(err)
	}
	return t.AccessToken, nil
}

// renew replaces an access token by the one of the file, or by a new one, which it writes there.
func (s *Source) renew(ctx context.Context, refused string) (token string, err error) {
	err = change(ctx, s.cfg.File, func(f *tokens) error {
		token = f.Token.AccessToken
		if f.Server == s.endpoint && token != refused && f.Token.Valid() { // another node was first
			return errUnchanged
		}
		if f.Server != s.endpoint || f.Token.RefreshToken == "" {
			return ErrLogin
		}
		renewed, err := f.client().Exchange(context.WithValue(ctx, oauth2.HTTPClient, s.client), "", // the library's own way has no resource
			oauth2.SetAuthURLParam("grant_type", "refresh_token"), oauth2.SetAuthURLParam("refresh_token", f.Token.RefreshToken),
			oauth2.SetAuthURLParam("resource", cmp.Or(f.Resource, s.endpoint)))
		if refusal := new(oauth2.RetrieveError); errors.As(err, &refusal) && !slices.Contains(busy, refusal.Response.StatusCode) && refusal.Response.StatusCode < http.StatusInternalServerError {
			return fmt.Errorf("%w: the authorization server renews the token no more: %w", ErrLogin, withoutBody(err))
		}
		if err != nil {
			return withoutBody(err)
		}
		f.Token, token = *renewed, renewed.AccessToken
		return nil
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// keep keeps a refusal for the next login: it may name scopes.
func (s *Source) keep(ctx context.Context, answer *http.Response) error {
	return change(ctx, s.cfg.File, func(f *tokens) error {
		if f.Server != s.endpoint {
			*f = tokens{Server: s.endpoint}
		}
		f.Refused, f.Challenges = answer.StatusCode, answer.Header.Values(challengeHeader)
		return nil
	})
}

// busy are refusals of a server that cannot answer now, beside those from 500 on.
var busy = []int{http.StatusRequestTimeout, http.StatusTooManyRequests} //nolint:gochecknoglobals // a table

const challengeHeader = "Www-Authenticate"

// wantsAuthorization reports whether an answer is a refusal that another token may change: 401, or 403 for want of a scope.
func wantsAuthorization(answer *http.Response) bool {
	if answer.StatusCode != http.StatusForbidden {
		return answer.StatusCode == http.StatusUnauthorized
	}
	return slices.ContainsFunc(challengesOf(answer), func(c oauthex.Challenge) bool { return c.Params["error"] == "insufficient_scope" })
}

// parameter matches what a login needs of a challenge, in forms that the library refuses, too.
var parameter = regexp.MustCompile(`\b(resource_metadata|scope|error)\s*=\s*(?:"([^"]+)"|([^\s",]+))`)

// challengesOf are the challenges of a refusal. It writes them anew where the library would refuse them all, as one has an empty parameter, or
// lacks a comma.
func challengesOf(refusal *http.Response) []oauthex.Challenge {
	sent := refusal.Header.Values(challengeHeader)
	list, err := oauthex.ParseWWWAuthenticate(sent)
	if err == nil {
		return list
	}
	text := `Bearer realm="server"`
	for _, found := range parameter.FindAllStringSubmatch(strings.Join(sent, ", "), -1) {
		text += fmt.Sprintf(", %s=%q", found[1], found[2]+found[3])
	}
	refusal.Header.Set(challengeHeader, text)
	list, _ = oauthex.ParseWWWAuthenticate(refusal.Header.Values(challengeHeader)) // it has that form
	return list
}

// resourceOf is the name that the metadata of a server have for it: many leave out its path, or have another slash at its end. Where the library
// would not find them by that name, the refusal names them.
func resourceOf(ctx context.Context, client *http.Client, endpoint string, refusal *http.Response) string {
	at, err := url.Parse(endpoint)
	if err != nil {
		return endpoint
	}
	host := at.Scheme + "://" + at.Host
	places := []string{host + "/.well-known/oauth-protected-resource" + at.EscapedPath(), host + "/.well-known/oauth-protected-resource"}
	for _, c := range challengesOf(refusal) {
		if place := c.Params["resource_metadata"]; place != "" {
			places = []string{place} // the server's word
		}
	}
	for _, name := range []string{endpoint, strings.TrimSuffix(endpoint, "/"), endpoint + "/", host, host + "/"} {
		for _, place := range places {
			if _, err := oauthex.GetProtectedResourceMetadata(ctx, place, name, client); err == nil {
				refusal.Header.Add(challengeHeader, fmt.Sprintf("Bearer resource_metadata=%q", place))
				return name
			}
		}
	}
	return endpoint
}

// withoutBody is an error of an authorization server without its body, which may have anything, as a secret of the client.
func withoutBody(err error) error {
	var refusal *oauth2.RetrieveError
	if !errors.As(err, &refusal) {
		if text := err.Error(); strings.Contains(text, "register client") {
			return errors.New(strings.TrimRight(text[:strings.IndexAny(text+"{", "{<")], " (:"))
		}
		return err
	}
	return fmt.Errorf("the authorization server answers %d %s", refusal.Response.StatusCode, cmp.Or(refusal.ErrorCode, "without a reason"))
}

func union(list, more []string) []string {
	for _, scope := range more {
		if !slices.Contains(list, scope) {
			list = append(list, scope)
		}
	}
	return list
}
