package serve

import (
	"errors"
	"fmt"
)

// checkIdle refuses flags that have no effect without another flag: a limit that the user sets must apply.
func (c *Command) checkIdle() error {
	door, own := c.HTTP != "", c.NATS == ""
	var errs []error
	for _, f := range []struct {
		flag  string
		idle  bool
		needs string
	}{
		{"http-tokens", !door && c.HTTPTokens != "", "--http HOST:PORT"},
		{"http-oidc", !door && c.HTTPOIDC != "", "--http HOST:PORT"},
		{"http-tenant", !door && c.HTTPTenant != "", "--http HOST:PORT"},
		{"http-tls-cert", !door && c.HTTPTLSCert != "", "--http HOST:PORT"},
		{"http-tls-key", !door && c.HTTPTLSKey != "", "--http HOST:PORT"},
		{"http-client-ca", !door && c.HTTPClientCA != "", "--http HOST:PORT"},
		{"http-client-cert", !door && c.HTTPClientCert == "optional", "--http HOST:PORT"},
		{"http-connections", !door && c.HTTPConnections != 0, "--http HOST:PORT"},
		{"http-origin", !door && len(c.HTTPOrigins) > 0, "--http HOST:PORT"},
		{"nats-scopes", own && c.Scopes != "", "--nats URL: the embedded server has no other accounts"},
		{"creds", own && c.Creds != "", "--nats URL"},
		{"tls-ca", own && c.TLSCA != "", "--nats URL"},
		{"tls-cert", own && c.TLSCert != "", "--nats URL"},
		{"tls-key", own && c.TLSKey != "", "--nats URL"},
	} {
		if f.idle {
			errs = append(errs, fmt.Errorf("--%s does nothing without %s", f.flag, f.needs))
		}
	}
	return errors.Join(errs...)
}
