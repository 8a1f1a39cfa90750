package security

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// authority signs certificates, as deploy/nats/make-certs.sh does.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  string // file
}

func newAuthority(t *testing.T, file string) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: filepath.Base(file)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	runtest.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	runtest.NoError(t, err)
	writePEM(t, file, "CERTIFICATE", der)
	return &authority{t, key, cert, file}
}

// issue writes base.pem and base.key: of a server without a user, else of that user.
func (a *authority) issue(base, user string) {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: filepath.Base(base)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if user == "" {
		template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	} else {
		template.EmailAddresses = []string{user}
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	runtest.NoError(a.t, err)
	writePEM(a.t, base+".pem", "CERTIFICATE", der)
	if der, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		a.t.Fatal(err)
	}
	writePEM(a.t, base+".key", "PRIVATE KEY", der)
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	runtest.NoError(t, err)
	return key
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	runtest.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// deployment is deploy/nats, installed into a directory of the test's own instead of /etc/nats, with fresh
// certificates.
type deployment struct {
	t       *testing.T
	dir     string
	clients *authority
	routes  *authority
	ns      *server.Server
	mu      sync.Mutex
	issued  map[string]bool
}

func install(t *testing.T) *deployment {
	t.Helper()
	dir := t.TempDir()
	d := &deployment{t: t, dir: dir, issued: make(map[string]bool)}
	from := filepath.Join("..", "..", "deploy", "nats")
	paths := strings.NewReplacer("/etc/nats", dir, "/var/lib/nats", filepath.Join(dir, "store"))
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(to, 0o750)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(paths.Replace(string(data))), 0o700) // scripts are run
	})
	if err == nil {
		err = os.MkdirAll(d.certs(""), 0o750)
	}
	runtest.NoError(t, err)
	d.clients, d.routes = newAuthority(t, d.certs("clients-ca.pem")), newAuthority(t, d.certs("routes-ca.pem"))
	d.clients.issue(d.certs("server"), "")
	d.routes.issue(d.certs("route"), "")
	return d
}

func (d *deployment) certs(name string) string { return filepath.Join(d.dir, "certs", name) }

// options reads a configuration file, and moves it to free loopback ports.
func (d *deployment) options(file string) *server.Options {
	d.t.Helper()
	opts, err := server.ProcessConfigFile(filepath.Join(d.dir, file))
	runtest.NoError(d.t, err)
	opts.Host, opts.Port, opts.HTTPPort = "127.0.0.1", server.RANDOM_PORT, 0
	opts.NoLog, opts.NoSigs = true, true
	return opts
}

// boot starts the single server of server.conf.
func (d *deployment) boot() *deployment {
	d.t.Helper()
	d.ns = d.start(d.options("server.conf"))
	return d
}

func (d *deployment) start(opts *server.Options) *server.Server {
	d.t.Helper()
	ns, err := server.NewServer(opts)
	runtest.NoError(d.t, err)
	d.t.Cleanup(func() {
		ns.Shutdown()
		ns.WaitForShutdown()
	})
	ns.Start()
	if !ns.ReadyForConnections(time.Minute) {
		d.t.Fatal("the server is not ready after 30 s")
	}
	return ns
}

// access are the flags of the commands with which a user of a tenant connects.
func (d *deployment) access(user string) []nats.Option {
	d.t.Helper()
	base := d.certs(strings.ReplaceAll(user, "@", "-at-"))
	d.mu.Lock()
	if !d.issued[user] {
		d.clients.issue(base, user)
		d.issued[user] = true
	}
	d.mu.Unlock()
	return []nats.Option{nats.RootCAs(d.clients.pem), nats.ClientCert(base+".pem", base+".key")}
}

// inboxOf is the prefix of a user's replies.
func inboxOf(user string) string {
	name, _, _ := strings.Cut(user, "@")
	return "_INBOX." + name
}

// config is the bus configuration of a user. At the end of the test the server must not have refused anything.
func (d *deployment) config(user string) bus.Config {
	d.t.Helper()
	refused := &bustest.Refusals{}
	d.t.Cleanup(func() {
		for _, what := range refused.All() {
			d.t.Errorf("%s: %s", user, what)
		}
	})
	return bus.Config{
		URL: d.ns.ClientURL(), Options: append(d.access(user), nats.ErrorHandler(refused.Handler)), Inbox: inboxOf(user),
	}
}

// conn is a user's connection without a bus.
func (d *deployment) conn(user string, more ...nats.Option) *nats.Conn {
	d.t.Helper()
	opts := append(d.access(user), nats.CustomInboxPrefix(inboxOf(user)))
	nc, err := nats.Connect(d.ns.ClientURL(), append(opts, more...)...)
	runtest.NoError(d.t, err)
	d.t.Cleanup(nc.Close)
	return nc
}
