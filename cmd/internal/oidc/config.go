package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
)

// Config is the input of [New]. The fields with JSON names are those of its file.
type Config struct {
	Issuer     string   `json:"issuer"`             // the claim iss, exactly
	Audience   string   `json:"audience"`           // one of the values of the claim aud
	KeysURL    string   `json:"keys_url,omitempty"` // of the issuer's JWKS: https, or http on this machine. Exactly one of KeysURL and KeysFile is set
	KeysFile   string   `json:"keys_file,omitempty"`
	Algorithms []string `json:"algorithms,omitempty"` // signature algorithms, asymmetric ones. Defaults to RS256, ES256 and EdDSA

	NameClaim string `json:"name_claim,omitempty"` // string claim with the caller's name. Defaults to sub
	// NamePrefix is put before the name, so that no subject has the name of another source's caller, or of an operator. Empty: nothing is.
	// Defaults to oidc-
	NamePrefix *string `json:"name_prefix,omitempty"`
	// ReservedNames are names that no token has, with the prefix: those of operators, who name themselves where they approve, erase and redact.
	ReservedNames []string `json:"reserved_names,omitempty"`

	Clients []string `json:"clients,omitempty"` // the claim azp is one of them. Defaults to any, or none
	// ScopeClaim is a string of words separated by spaces, or a list of strings; only those with ScopePrefix count.
	// After the prefix comes a scope or a right, or "all" for a caller that reaches every session of the tenant.
	// Defaults to scope, and lash:
	ScopeClaim  string `json:"scope_claim,omitempty"`
	ScopePrefix string `json:"scope_prefix,omitempty"`
	TenantClaim string `json:"tenant_claim,omitempty"` // string claim with the caller's tenant. Required where Tenant is set

	LeewaySeconds  int64 `json:"leeway_seconds,omitempty"`  // allowed clock difference, at most 300. Defaults to 30
	RefreshSeconds int64 `json:"refresh_seconds,omitempty"` // interval of key refreshes. Defaults to 300

	Tenant   string                 `json:"-"` // of the node; empty: it has none
	Reserved func(name string) bool `json:"-"` // names that no token may have, for example those of other sources; nil: none
	Logger   *zap.Logger            `json:"-"` // nil is silent
	Now      func() time.Time       `json:"-"` // defaults to time.Now
}

// ParseConfig reads the JSON object of a file. It refuses unknown fields.
func ParseConfig(r io.Reader) (Config, error) {
	var c Config
	data, err := io.ReadAll(io.LimitReader(r, maxKeys))
	if err != nil {
		return c, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return c, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return c, errors.New("something follows the JSON object")
	}
	return c, nil
}

// asymmetric are the algorithms that a configuration may allow. With a symmetric algorithm, or none, a client that
// knows the public key could sign tokens.
func asymmetric() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

const (
	maxLeeway    = 300     // seconds
	maxRefresh   = 86_400  // seconds
	maxKeys      = 1 << 20 // bytes of a JWKS, and of the configuration
	maxTokenText = 16 << 10
)

func (c *Config) complete() error {
	otherwise(&c.NameClaim, "sub")
	otherwise(&c.ScopeClaim, "scope")
	otherwise(&c.ScopePrefix, "lash:")
	otherwise(&c.NamePrefix, new("oidc-"))
	otherwise(&c.LeewaySeconds, 30)
	otherwise(&c.RefreshSeconds, 300)
	if len(c.Algorithms) == 0 {
		c.Algorithms = []string{"RS256", "ES256", "EdDSA"}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	refuse := func(field, format string, args ...any) error {
		return &events.FieldError{Field: field, Reason: fmt.Sprintf(format, args...), Err: events.ErrInvalid}
	}
	var errs []error
	if c.Issuer == "" || c.Audience == "" {
		errs = append(errs, refuse("issuer, audience", "are required"))
	}
	if (c.KeysURL == "") == (c.KeysFile == "") {
		errs = append(errs, refuse("keys_url, keys_file", "one of them is required"))
	}
	if c.KeysURL != "" && !safe(c.KeysURL) {
		errs = append(errs, refuse("keys_url", "must begin with https://, or with http:// and name 127.0.0.1, [::1] or localhost"))
	}
	for _, name := range c.Algorithms {
		if !slices.Contains(asymmetric(), name) {
			errs = append(errs, refuse("algorithms", "%q is none of %s", name, strings.Join(asymmetric(), " ")))
		}
	}
	if c.LeewaySeconds < 0 || c.LeewaySeconds > maxLeeway {
		errs = append(errs, refuse("leeway_seconds", "%d, limit is %d", c.LeewaySeconds, maxLeeway))
	}
	if c.RefreshSeconds < 1 || c.RefreshSeconds > maxRefresh {
		errs = append(errs, refuse("refresh_seconds", "%d, want 1 to %d", c.RefreshSeconds, maxRefresh))
	}
	if *c.NamePrefix != "" {
		errs = append(errs, events.CheckToken("name_prefix", *c.NamePrefix))
	}
	if slices.Contains(c.Clients, "") {
		errs = append(errs, refuse("clients", "has an empty name"))
	}
	if (c.Tenant == "") != (c.TenantClaim == "") {
		errs = append(errs, refuse("tenant_claim", "and the tenant of the node go together"))
	}
	return errors.Join(errs...)
}

func otherwise[T comparable](v *T, value T) {
	var none T
	if *v == none {
		*v = value
	}
}

// safe reports whether the URL protects the keys against replacement on the network.
func safe(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	host := u.Hostname()
	return u.Scheme == "https" || u.Scheme == "http" && (host == "localhost" || host == "127.0.0.1" || host == "::1")
}

func (c *Config) signatures() []jose.SignatureAlgorithm {
	list := make([]jose.SignatureAlgorithm, len(c.Algorithms))
	for i, name := range c.Algorithms {
		list[i] = jose.SignatureAlgorithm(name)
	}
	return list
}

// read reads the current keys.
func (c *Config) read(ctx context.Context) ([]byte, error) {
	if c.KeysFile != "" {
		return readFile(c.KeysFile)
	}
	return readURL(ctx, c.KeysURL)
}
