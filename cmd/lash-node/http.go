package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"go.uber.org/zap"

	"github.com/lash-go/lash/session/httpapi"
)

// httpFlags are those of the HTTP door.
type httpFlags struct {
	HTTP        string   `name:"http" help:"Address at which sessions are served over HTTP, e.g. 127.0.0.1:8080. Defaults to none." placeholder:"HOST:PORT"`
	HTTPTokens  string   `name:"http-tokens" help:"File of bearer tokens, one a line: a name, a scope (read, write, admin), the sha256 of the token in hex, and own where it reaches only its own sessions and those that it has a grant of." placeholder:"FILE" type:"path"`
	HTTPTLSCert string   `name:"http-tls-cert" help:"Certificate of the HTTP door. Without one it speaks plain HTTP." placeholder:"FILE" type:"path"`
	HTTPTLSKey  string   `name:"http-tls-key" help:"Key of that certificate." placeholder:"FILE" type:"path"`
	HTTPOrigins []string `name:"http-origin" help:"Origins of web pages that may use the HTTP door, e.g. https://example.com." placeholder:"ORIGIN"`
}

// httpDoor is the HTTP door of a node; nil where it has none.
type httpDoor struct {
	server *httpapi.Server
	on     net.Listener
}

// openHTTP checks everything and takes the address. Nothing is served before start.
func (f *httpFlags) openHTTP(ctx context.Context, s *streams, service httpapi.Service, log *zap.Logger) (*httpDoor, error) {
	if f.HTTP == "" {
		return nil, nil //nolint:nilnil // the node has none
	}
	server, err := f.server(service, log)
	if err != nil {
		return nil, err
	}
	secure, err := f.secure()
	if err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	on, err := listen.Listen(ctx, "tcp", f.HTTP)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	scheme := "http"
	if secure != nil {
		on, scheme = tls.NewListener(on, secure), "https"
	}
	write(s.err, "lash-node: sessions at %s://%s/v1, described at /v1/openapi.json\n", scheme, on.Addr())
	return &httpDoor{server, on}, nil
}

func (d *httpDoor) start() {
	if d != nil {
		d.server.Start(d.on)
	}
}

// stop is soft until ctx ends, then hard; see [httpapi.Server.Stop].
func (d *httpDoor) stop(ctx context.Context) {
	if d != nil {
		d.server.Stop(ctx)
		_ = d.on.Close() // where it was never started
	}
}

// secure is nil for plain HTTP.
func (f *httpFlags) secure() (*tls.Config, error) {
	switch {
	case (f.HTTPTLSCert == "") != (f.HTTPTLSKey == ""):
		return nil, errors.New("--http-tls-cert and --http-tls-key go together")
	case f.HTTPTLSCert == "":
		return nil, nil //nolint:nilnil // plain
	}
	cert, err := tls.LoadX509KeyPair(f.HTTPTLSCert, f.HTTPTLSKey)
	if err != nil {
		return nil, fmt.Errorf("--http-tls-cert: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}, nil
}

func (f *httpFlags) server(service httpapi.Service, log *zap.Logger) (*httpapi.Server, error) {
	if f.HTTPTokens == "" {
		return nil, errors.New("--http needs --http-tokens FILE; a line of it is made with: printf '%s write %s\\n' NAME $(printf %s \"$TOKEN\" | sha256sum | cut -d' ' -f1)")
	}
	file, err := os.Open(f.HTTPTokens)
	if err != nil {
		return nil, fmt.Errorf("--http-tokens: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	tokens, err := httpapi.ParseTokens(file)
	if err != nil {
		return nil, fmt.Errorf("--http-tokens %s: %w", f.HTTPTokens, err)
	}
	server, err := httpapi.New(httpapi.Config{Service: service, Tokens: tokens, Origins: f.HTTPOrigins, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	return server, nil
}
