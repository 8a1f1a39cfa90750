package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/lash-go/lash/bus/busembed"
)

// certificates are the current certificates of the HTTP server. They change when their files change.
type certificates struct {
	own     atomic.Pointer[tls.Certificate]
	clients atomic.Pointer[x509.CertPool] // nil: no client certificates
}

// secure returns the TLS configuration; nil for plain HTTP.
func (f *httpFlags) secure(files *rereader) (*tls.Config, error) {
	switch {
	case (f.HTTPTLSCert == "") != (f.HTTPTLSKey == ""):
		return nil, errors.New("settings http-tls-cert and http-tls-key go together")
	case f.HTTPTLSCert == "" && f.HTTPClientCA != "":
		return nil, errors.New("setting http-client-ca needs http-tls-cert and http-tls-key")
	case f.HTTPTLSCert == "":
		return nil, f.plain()
	}
	c := &certificates{}
	if err := files.add("setting http-tls-cert", c.setOwn, f.HTTPTLSCert, f.HTTPTLSKey); err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.own.Load(), nil },
	}
	if f.HTTPClientCA == "" {
		return config, nil
	}
	if err := files.add("setting http-client-ca", c.setClients, f.HTTPClientCA); err != nil {
		return nil, err
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	if f.HTTPClientCert == "optional" {
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	config.SessionTicketsDisabled = true // a resumed session would skip the check against the current authorities
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := config.Clone()
		now.ClientCAs = c.clients.Load()
		return now, nil
	}
	return config, nil
}

// plain refuses plain HTTP at addresses that other machines can reach.
func (f *httpFlags) plain() error {
	host, _, err := net.SplitHostPort(f.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	if !busembed.Loopback(host) {
		return fmt.Errorf("--http %s: without TLS everything on the way reads tokens: give the settings http-tls-cert and http-tls-key, or listen on 127.0.0.1, ::1 or localhost, behind a proxy on this machine", f.HTTP)
	}
	return nil
}

func (c *certificates) setOwn(contents [][]byte) error {
	cert, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return err
	}
	c.own.Store(&cert)
	return nil
}

func (c *certificates) setClients(contents [][]byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return errors.New("no certificate is in it")
	}
	c.clients.Store(pool)
	return nil
}
