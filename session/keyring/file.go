package keyring

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events/localfile"
)

// algorithm is the byte before the key in note's form of an Ed25519 key.
const algorithm = 1

// privateText is note's form of a private key.
func privateText(name string, key ed25519.PrivateKey) string {
	public := append([]byte{algorithm}, key.Public().(ed25519.PublicKey)...)
	hash := sha256.Sum256(append([]byte(name+"\n"), public...))
	seed := append([]byte{algorithm}, key.Seed()...)
	return fmt.Sprintf("PRIVATE+KEY+%s+%x+%s\n", name, hash[:4], base64.StdEncoding.EncodeToString(seed))
}

// readPrivate reads note's form of a private key.
func readPrivate(text string) (name string, key ed25519.PrivateKey, err error) {
	signer, err := note.NewSigner(trimmed([]byte(text)))
	if err != nil {
		return "", nil, err
	}
	encoded := text[strings.LastIndex(text, "+"+fmt.Sprintf("%08x", signer.KeyHash())+"+")+10:]
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return "", nil, errors.New("not a private key in the form of golang.org/x/mod/sumdb/note")
	}
	return signer.Name(), ed25519.NewKeyFromSeed(seed[1:]), nil
}

func trimmed(text []byte) string { return strings.TrimSpace(string(text)) }

// wantPublic says what a file of public keys has. An error does not quote the file, which may be a private key.
const wantPublic = "want the file " + TenantPub + " of the tenant's keys, or lines of name+hash+base64 as it has them"

// Verifiers reads public keys, one a line, in note's form. Empty lines and those that begin with # are skipped.
func Verifiers(text string) ([]note.Verifier, error) {
	var list []note.Verifier
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is no public key: %w: %s", n, err, wantPublic)
		}
		list = append(list, v)
	}
	if len(list) == 0 {
		return nil, errors.New("no public key: " + wantPublic)
	}
	return list, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: other users can read the key: chmod 600 it, or make a new one", path)
	}
	return readFile(path)
}

// readFile reads a file of keys.
func readFile(path string) ([]byte, error) { return localfile.Read(path, localfile.MaxBytes) }

// writeFile replaces a file atomically. Only its owner can read it.
func writeFile(path, text string) error {
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}
