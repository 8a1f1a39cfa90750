package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/lash-go/lash/cmd/internal/mcpapi"
	"github.com/lash-go/lash/cmd/internal/oidc"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
)

// Agents is the handler of /v1/mcp that `lash-node serve` has, for [httpapi.Config] of a program with an HTTP server of its own.
func Agents(api http.Handler) http.Handler { return mcpapi.Handler(api) }

// httpFlags are the flags of the HTTP server.
type httpFlags struct {
	HTTP            string   `name:"http" help:"Address at which sessions are served over HTTP, e.g. 127.0.0.1:8080. Defaults to none." placeholder:"HOST:PORT"`
	HTTPTokens      string   `name:"http-tokens" help:"File of callers, one a line: a name, a scope (read, write, admin, or a list of rights: read,write,approve,configure,command), and the sha256 of a bearer token in hex, or uri:URI or cn:NAME of a client certificate; then, if needed, expires=TIME (RFC 3339), tenant=NAME, and own for one that reaches only its own sessions and those that it has a grant of. Read again when it changes." placeholder:"FILE" type:"path"`
	HTTPOIDC        string   `name:"http-oidc" help:"JSON file of an OpenID Connect issuer whose signed tokens count too: issuer, audience, keys_url or keys_file, algorithms, name_claim, name_prefix, reserved_names, clients, scope_claim, scope_prefix, tenant_claim, leeway_seconds, refresh_seconds." placeholder:"FILE" type:"path" setting:""`
	HTTPTenant      string   `name:"http-tenant" help:"Tenant of this node: callers of another one are refused." placeholder:"NAME" setting:""`
	HTTPTLSCert     string   `name:"http-tls-cert" help:"Certificate of the HTTP server, read again when it changes. Without one it speaks plain HTTP, on this machine only." placeholder:"FILE" type:"path" setting:""`
	HTTPTLSKey      string   `name:"http-tls-key" help:"Key of that certificate." placeholder:"FILE" type:"path" setting:""`
	HTTPClientCA    string   `name:"http-client-ca" help:"Authorities whose client certificates are taken, read again when they change. The file of callers names the certificates." placeholder:"FILE" type:"path" setting:""`
	HTTPClientCert  string   `name:"http-client-cert" help:"With http-client-ca: required takes no connection without a certificate, optional takes tokens alone too." default:"required" enum:"required,optional" setting:""`
	HTTPConnections int      `name:"http-connections" help:"Connections of the HTTP server at once, at most half of the files that the process may open (ulimit -n): the rest is the node's own. Half of them may be of clients that were not authenticated yet; a new one closes the oldest. Defaults to 2048, or that half where it is less." placeholder:"N" setting:""`
	HTTPProxies     []string `name:"http-proxy" help:"Addresses or ranges (CIDR) of trusted proxies before the HTTP server: the client of their requests, for limits and the access log, is the right-most address of the setting http-proxy-header that is not among them. Headers of others are ignored." placeholder:"RANGE"`
	HTTPProxyHeader string   `name:"http-proxy-header" help:"Header that these proxies write: x-forwarded-for or forwarded." default:"x-forwarded-for" enum:"x-forwarded-for,forwarded" setting:""`
	NoHTTPPage      bool     `name:"no-http-page" help:"Serve no web page. Otherwise it is at /, shows the sessions that a caller may read, and asks for a token where the browser has no certificate." setting:""`
	HTTPOrigins     []string `name:"http-origin" help:"Origins of web pages that may use the HTTP server, e.g. https://example.com." placeholder:"ORIGIN" setting:""`
}

// httpServer is the HTTP server of a node; nil where it has none.
type httpServer struct {
	server   *httpapi.Server
	identity []httpapi.Identifier
	issuer   *oidc.Identifier // nil: none
	on       net.Listener
	files    *rereader
}

// openHTTP checks all flags and binds the address. The configuration has what the flags do not say. users are those of other NATS accounts.
// It serves nothing before start.
func (f *httpFlags) openHTTP(ctx context.Context, s *program.Streams, cfg httpapi.Config, users map[string]api.Reach) (*httpServer, error) {
	if f.HTTP == "" {
		return nil, nil //nolint:nilnil // the node has none
	}
	d := &httpServer{files: &rereader{log: cfg.Logger.Named("http")}}
	secure, err := f.secure(d.files)
	if err == nil {
		err = d.identifiers(ctx, s, f, cfg.Logger, users)
	}
	if err == nil {
		cfg.TLS = secure
		err = d.serve(f, cfg)
	}
	if err == nil {
		d.on, err = listen(ctx, "--http", f.HTTP)
	}
	if err != nil {
		d.stop(ctx)
		return nil, err
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	}
	s.Printf("HTTP on %s://%s/v1, for %s; described at /v1/openapi.json", scheme, d.on.Addr(), f.callers())
	if !f.NoHTTPPage {
		s.Printf("web page on %s://%s/", scheme, d.on.Addr())
	}
	return d, nil
}

// callers describes the callers that the server accepts.
func (f *httpFlags) callers() string {
	var list []string
	switch {
	case f.HTTPTokens != "" && f.HTTPClientCA != "":
		list = append(list, "bearers of tokens and holders of certificates in "+f.HTTPTokens)
	case f.HTTPTokens != "":
		list = append(list, "bearers of tokens in "+f.HTTPTokens)
	}
	if f.HTTPOIDC != "" {
		list = append(list, "bearers of tokens of the issuer in "+f.HTTPOIDC)
	}
	if f.HTTPClientCA != "" && f.HTTPClientCert == "required" {
		list = append(list, "all with a certificate of an authority in "+f.HTTPClientCA)
	}
	return strings.Join(list, ", ")
}

func (d *httpServer) start() {
	if d != nil {
		d.server.Start(d.on)
		d.files.start()
	}
}

// lacks says what the server cannot do yet; it is empty if there is nothing. Callers with other credentials are served.
func (d *httpServer) lacks() string {
	if d == nil || d.issuer == nil || d.issuer.Ready() {
		return ""
	}
	return "the issuer's keys of http-oidc are not read yet: its tokens are answered with 503"
}

// stop is soft until ctx ends, then hard; see [httpapi.Server.Stop]. It also closes a server that was only partly
// opened.
func (d *httpServer) stop(ctx context.Context) {
	if d == nil {
		return
	}
	if d.server != nil {
		d.server.Stop(ctx)
	}
	if d.on != nil {
		_ = d.on.Close() // it did not start
	}
	if d.issuer != nil {
		d.issuer.Stop()
	}
	d.files.stop()
}

func (d *httpServer) serve(f *httpFlags, cfg httpapi.Config) (err error) {
	if cfg.MaxConnections, err = f.connections(); err != nil {
		return err
	}
	if cfg.Proxies, err = f.proxies(); err != nil {
		return err
	}
	cfg.ProxyHeader = http.CanonicalHeaderKey(f.HTTPProxyHeader)
	cfg.Identity, cfg.Tenant, cfg.Origins, cfg.Agents = d.identity, f.HTTPTenant, f.HTTPOrigins, Agents
	if !f.NoHTTPPage {
		if cfg.Page, err = webpage.New(webpage.Settings{Prices: cfg.Prices != nil}); err != nil {
			return fmt.Errorf("web page: %w", err)
		}
	}
	d.server, err = httpapi.New(cfg)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	return nil
}

// proxies are the ranges of --http-proxy.
func (f *httpFlags) proxies() (list []netip.Prefix, err error) {
	for _, text := range f.HTTPProxies {
		p, err := netip.ParsePrefix(text)
		if a, addrErr := netip.ParseAddr(text); addrErr == nil && a.Zone() == "" {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("--http-proxy %s: want an address or a range, as 10.0.0.0/8", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}

// connections is the limit of open connections. Half of the process's open files stay free for the node.
func (f *httpFlags) connections() (int, error) {
	files, err := openFiles()
	if err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	half := int(min(files/2, 1<<20))
	switch {
	case f.HTTPConnections == 0:
		return max(min(half, httpapi.DefaultConnections), 1), nil
	case f.HTTPConnections < 0 || f.HTTPConnections > half:
		return 0, fmt.Errorf("setting http-connections %d: want 1 to %d, half of the %d files that this process may open; raise ulimit -n, or LimitNOFILE of its unit", f.HTTPConnections, half, files)
	}
	return f.HTTPConnections, nil
}
