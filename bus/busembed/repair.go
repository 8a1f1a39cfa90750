package busembed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"github.com/minio/highwayhash"
)

// repair corrects the checksum of every stream's metadata before the server reads the store. Metadata and checksum
// are two files, each replaced atomically, the metadata first. A server that is killed between them (nats-server
// 2.15.2) skips the stream, with all its messages, at every later start.
func repair(store string) error {
	streams, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "*"))
	if err != nil {
		return err
	}
	for _, dir := range streams {
		if err := repairStream(dir); err != nil {
			return err
		}
	}
	return nil
}

func repairStream(dir string) error {
	description, err := os.ReadFile(filepath.Join(dir, "meta.inf")) //nolint:gosec // of the store
	if errors.Is(err, os.ErrNotExist) {
		return nil // half deleted, or half created
	}
	if err != nil {
		return err
	}
	key := sha256.Sum256([]byte(filepath.Base(dir)))
	hash, err := highwayhash.New64(key[:])
	if err != nil {
		return err
	}
	_, _ = hash.Write(description)
	want := []byte(hex.EncodeToString(hash.Sum(nil)))
	name := filepath.Join(dir, "meta.sum")
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, want) { //nolint:gosec // of the store
		return nil
	}
	return os.WriteFile(name, want, 0o600)
}
