package serve

import (
	"errors"
	"fmt"
)

// checkIdle refuses flags that have no effect without another flag: a limit that the user sets must apply.
func (c *Command) checkIdle() error {
	hasHTTP, own := c.HTTP != "", c.NATS == ""
	const setting = "the setting "
	var errs []error
	for _, f := range []struct {
		flag  string
		idle  bool
		needs string
	}{
		{"--http-tokens", !hasHTTP && c.HTTPTokens != "", "--http HOST:PORT"},
		{setting + "http-oidc", !hasHTTP && c.HTTPOIDC != "", "--http HOST:PORT"},
		{setting + "http-tenant", !hasHTTP && c.HTTPTenant != "", "--http HOST:PORT"},
		{setting + "http-tls-cert", !hasHTTP && c.HTTPTLSCert != "", "--http HOST:PORT"},
		{setting + "http-tls-key", !hasHTTP && c.HTTPTLSKey != "", "--http HOST:PORT"},
		{setting + "http-client-ca", !hasHTTP && c.HTTPClientCA != "", "--http HOST:PORT"},
		{setting + "http-client-cert", !hasHTTP && c.HTTPClientCert == "optional", "--http HOST:PORT"},
		{setting + "http-connections", !hasHTTP && c.HTTPConnections != 0, "--http HOST:PORT"},
		{"--http-proxy", !hasHTTP && len(c.HTTPProxies) > 0, "--http HOST:PORT"},
		{setting + "http-proxy-header", !hasHTTP && c.HTTPProxyHeader == "forwarded", "--http HOST:PORT"},
		{setting + "no-http-page", !hasHTTP && c.NoHTTPPage, "--http HOST:PORT"},
		{setting + "http-origin", !hasHTTP && len(c.HTTPOrigins) > 0, "--http HOST:PORT"},
		{setting + "nats-scopes", own && c.Scopes != "", "--nats URL: the embedded server has no other accounts"},
		{"--creds", own && c.Creds != "", "--nats URL"},
		{"--tls-ca", own && c.TLSCA != "", "--nats URL"},
		{"--tls-cert", own && c.TLSCert != "", "--nats URL"},
		{"--tls-key", own && c.TLSKey != "", "--nats URL"},
	} {
		if f.idle {
			errs = append(errs, fmt.Errorf("%s does nothing without %s", f.flag, f.needs))
		}
	}
	return errors.Join(errs...)
}
