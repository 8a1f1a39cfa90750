package keyring

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// Names of the files in a directory of keys.
const (
	TenantKey   = "tenant.key"
	TenantPub   = "tenant.pub"
	NodeKey     = "node.key"
	Certificate = "node.cert"
)

// Validity is the default validity of a certificate.
const Validity = 365 * 24 * time.Hour

// early is how long before now a certificate begins, so that nodes with slower clocks can use it.
const early = time.Hour

// Dir is the directory of keys of an embedded store.
func Dir(store string) string { return filepath.Join(filepath.Clean(store), "keys") }

// Keys are a node's keys. Heads are signed with the newest one. It is safe for concurrent use.
type Keys struct{ signer atomic.Pointer[proof.Signer] }

// Signer is the signer of the next head.
func (k *Keys) Signer() *proof.Signer { return k.signer.Load() }

// Set makes later heads signed by another key, given the contents of its files.
func (k *Keys) Set(key, certificate, tenants []byte) error {
	signer, err := signerOf(key, certificate, tenants)
	if err == nil {
		k.signer.Store(signer)
	}
	return err
}

// signerOf checks that the files belong together.
func signerOf(key, certificate, tenants []byte) (*proof.Signer, error) {
	_, private, err := readPrivate(string(key))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", NodeKey, err)
	}
	trusted, err := Verifiers(string(tenants))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", TenantPub, err)
	}
	cert, err := proof.ReadCertificate(string(certificate), trusted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Certificate, err)
	}
	signer, err := proof.NewSigner(private, cert)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Certificate, err)
	}
	return signer, nil
}

// Load reads the keys of a node. Error: [ErrExpired] where its certificate is not valid at now.
func Load(dir string, now time.Time) (*Keys, error) {
	key, err := readSecret(filepath.Join(dir, NodeKey))
	if err != nil {
		return nil, err
	}
	certificate, err := readFile(filepath.Join(dir, Certificate))
	if err != nil {
		return nil, err
	}
	tenants, err := readFile(filepath.Join(dir, TenantPub))
	if err != nil {
		return nil, err
	}
	k := &Keys{}
	if err := k.Set(key, certificate, tenants); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	if cert := k.Signer().Certificate(); !cert.ValidAt(events.MillisOf(now)) {
		return k, fmt.Errorf("%s: %w: from %s to %s", filepath.Join(dir, Certificate), ErrExpired, cert.From.Time().Format(time.RFC3339), cert.Until.Time().Format(time.RFC3339))
	}
	return k, nil
}

// ErrExpired is a certificate that is not valid now.
var ErrExpired = errors.New("the certificate is not valid now")

// Open reads the keys of an embedded store. It makes what is missing. If the tenant's key is there, it also makes a new
// node key where the present one cannot be used, or its certificate has less than half of its validity left.
func Open(dir string, now time.Time) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if !exists(dir, TenantPub) {
		var err error
		switch {
		case exists(dir, TenantKey): // a program died between the two files
			err = rewritePublic(dir)
		case !exists(dir, NodeKey):
			_, err = MakeTenant(dir, "")
		}
		if err != nil {
			return nil, err
		}
	}
	k, err := Load(dir, now)
	if !exists(dir, TenantKey) {
		return k, err
	}
	if err == nil && now.Before(middle(k.Signer().Certificate())) {
		return k, nil
	}
	if _, err := Certify(dir, dir, "", now, Validity); err != nil {
		return nil, err
	}
	return Load(dir, now)
}

func middle(c *proof.Certificate) time.Time { return ((c.From + c.Until) / 2).Time() }

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// MakeTenant makes a tenant's key and returns the public one. A key that exists stays: [fs.ErrExist]. The name is that of
// the tenant, for example example.com/agents. Defaults to one of the key.
func MakeTenant(dir, name string) (public string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	key, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	if name == "" {
		name = "lash/" + short(key)
	}
	if public, err = proof.PublicKey(name, key); err != nil {
		return "", err
	}
	if exists(dir, TenantKey) {
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, TenantKey), fs.ErrExist)
	}
	if err := writeFile(filepath.Join(dir, TenantKey), privateText(name, private)); err != nil {
		return "", err
	}
	return public, writeFile(filepath.Join(dir, TenantPub), public+"\n")
}

// rewritePublic writes the tenant's public key again, from the private one.
func rewritePublic(dir string) error {
	path := filepath.Join(dir, TenantKey)
	text, err := readSecret(path)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(trimmed(text))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fields := strings.SplitN(trimmed(text), "+", 5) // PRIVATE, KEY, name, hash, and the algorithm with the seed
	data, err := base64.StdEncoding.DecodeString(fields[len(fields)-1])
	if err != nil || len(data) != 1+ed25519.SeedSize {
		return fmt.Errorf("%s: %w: no Ed25519 key", path, events.ErrMalformed)
	}
	key, _ := ed25519.NewKeyFromSeed(data[1:]).Public().(ed25519.PublicKey)
	public, err := proof.PublicKey(signer.Name(), key)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, TenantPub), public+"\n")
}

// short is a name for a key that needs none.
func short(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:4])
}

// Certify makes a new node key in dir, with a certificate of the tenant whose key is in the directory tenant. It
// replaces an older node key. The name of the node's key defaults to one of the key.
func Certify(dir, tenant, name string, now time.Time, validity time.Duration) (*proof.Certificate, error) {
	text, err := readSecret(filepath.Join(tenant, TenantKey))
	if err != nil {
		return nil, err
	}
	public, err := readFile(filepath.Join(tenant, TenantPub))
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(trimmed(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(tenant, TenantKey), err)
	}
	key, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = "node-" + short(key)
	}
	cert, err := proof.Certify(signer, name, key, events.MillisOf(now.Add(-early)), events.MillisOf(now.Add(validity)))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if dir != tenant {
		if err := writeFile(filepath.Join(dir, TenantPub), string(public)); err != nil {
			return nil, err
		}
	}
	err = writeFile(filepath.Join(dir, Certificate), cert.Text)
	if err == nil {
		err = writeFile(filepath.Join(dir, NodeKey), privateText(name, private))
	}
	return cert, err
}
