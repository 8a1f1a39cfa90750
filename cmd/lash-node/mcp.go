package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/cmd/internal/mcpapi"
	"github.com/lash-go/lash/cmd/internal/program"
)

type mcpCmd struct {
	Serve mcpServeCmd `cmd:"" default:"withargs" help:"Serve sessions to another agent, over standard input and output."`
	Login mcpLoginCmd `cmd:"" help:"Log in at an MCP server behind OAuth, for the nodes that use it."`
}

type mcpServeCmd struct {
	URL       string `help:"The HTTP API of a node, as lash-node serve --http prints it. Default: ${default}." default:"http://127.0.0.1:8080" placeholder:"URL"`
	TokenFile string `name:"token-file" help:"File with the token of a caller. Defaults to the variable LASH_TOKEN, which has the token itself." placeholder:"FILE" type:"path"`
	CA        string `name:"ca" help:"PEM file of the authority of the node's certificate. Defaults to those of the system." placeholder:"FILE" type:"path"`
}

func (*mcpServeCmd) Help() string {
	return "Another agent starts this command, and speaks the Model Context Protocol over its standard input and output: it creates sessions, runs turns " +
		"with progress, answers approvals, and reads and searches histories, with the rights of the token. In the file of an editor:\n\n" +
		"  {\"mcpServers\": {\"lash\": {\"command\": \"lash-node\", \"args\": [\"mcp\", \"--token-file\", \"/etc/lash/token\"]}}}\n\n" +
		"Exit codes: 0 the input ended, or a signal, 2 it could not be done."
}

// Run serves until the input ends, or a signal.
func (c *mcpServeCmd) Run(ctx context.Context, s *streams) error {
	if s.In == nil {
		return errors.New("there is no standard input: another agent starts this command, lash-node mcp --help shows how")
	}
	c.URL = strings.TrimSuffix(strings.TrimSuffix(c.URL, "/"), "/v1")
	transport, err := c.transport(s)
	if err != nil {
		return err
	}
	if err := c.check(ctx, s, transport); err != nil {
		return err
	}
	server := mcpapi.New(mcpapi.Config{Base: c.URL, Transport: transport})
	err = server.Run(ctx, &mcp.IOTransport{Reader: s.In, Writer: unclosed{s.Out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// unclosed is the standard output, which the program closes.
type unclosed struct{ io.Writer }

// Close implements [io.Closer].
func (unclosed) Close() error { return nil }

// authorized sends requests with a token.
type authorized struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (a *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return a.next.RoundTrip(r)
}

func (c *mcpServeCmd) transport(s *streams) (http.RoundTripper, error) {
	token := s.Env("LASH_TOKEN")
	if c.TokenFile != "" {
		data, err := program.ReadFile(c.TokenFile, program.MaxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		token = string(data)
	}
	if token = strings.TrimSpace(token); token == "" {
		return nil, errors.New("--token-file or LASH_TOKEN: names the token of a caller, see \"Callers\" in OPERATING.md")
	}
	next := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of this type
	if c.CA != "" {
		data, err := program.ReadFile(c.CA, program.MaxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("--ca: %w", err)
		}
		next.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		if !next.TLSClientConfig.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("--ca %s: has no certificate", c.CA)
		}
	}
	return &authorized{token, next}, nil
}

// check asks the node for nothing, so that a wrong address or token is said at the start.
func (c *mcpServeCmd) check(ctx context.Context, s *streams, transport http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	defer s.NoteWait("the node at %s", c.URL)()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL+"/v1/sessions?limit=1", nil)
	if err != nil {
		return fmt.Errorf("--url: %w", err)
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("--url %s: %w: is a node there? lash-node serve --http starts one", c.URL, err)
	}
	_ = answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK, http.StatusForbidden: // a caller that may not read may still write
		return nil
	case http.StatusUnauthorized:
		return fmt.Errorf("%s refuses the token: %s: it is unknown there or has expired; the file of --http-tokens of its node has the known ones, and --token-file names another one", c.URL, cmp.Or(c.TokenFile, "LASH_TOKEN"))
	}
	return fmt.Errorf("--url %s: status %d at /v1/sessions: is it the HTTP API of a node?", c.URL, answer.StatusCode)
}
