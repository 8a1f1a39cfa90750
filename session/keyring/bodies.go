package keyring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lash-go/lash/events/bodykey"
)

// LoadBodies reads the keys of bodies in a file, which only its owner may read.
func LoadBodies(path string) (*bodykey.Keys, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	k, err := bodykey.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// MakeBodies writes a file with one new key of bodies. A file that exists stays: [fs.ErrExist].
func MakeBodies(path string) (*bodykey.Keys, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", path, fs.ErrExist))
	}
	k, err := bodykey.New()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err != nil {
		return nil, err
	}
	return k, saveBodies(path, k)
}

// ChangeBodies replaces the keys in a file by what change makes of them, atomically.
func ChangeBodies(path string, change func(*bodykey.Keys) (*bodykey.Keys, error)) (*bodykey.Keys, error) {
	k, err := LoadBodies(path)
	if err == nil {
		k, err = change(k)
	}
	if err != nil {
		return nil, err
	}
	return k, saveBodies(path, k)
}

func saveBodies(path string, k *bodykey.Keys) error {
	text, err := k.Text()
	if err != nil {
		return err
	}
	return writeFile(path, string(text))
}
