package busembed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lash-go/lash/events/localfile"
)

// accessName is the file in the store directory with the store's [Access]. Only its owner can read it.
const accessName = "access.json"

// Access is the address and a key of a server with [Config.Keyed], for processes of the same user.
type Access struct {
	URL  string `json:"url"`  // where the server listens, or listened last; empty before its first start
	Seed string `json:"seed"` // of the NATS nkey of nodes, or of a plugin
}

// AccessFile is the path of a store's access file.
func AccessFile(store string) string { return filepath.Join(filepath.Clean(store), accessName) }

// ReadAccess reads the access of a store's server, running or not. Errors: [fs.ErrNotExist] where the store has none.
func ReadAccess(store string) (Access, error) {
	a, err := readAccess(AccessFile(store))
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("%w: lash-node serve --store %s makes it, or name the directory of another store", err, store)
	}
	return a, err
}

func readAccess(name string) (Access, error) {
	var a Access
	data, err := localfile.Read(name, localfile.MaxBytes)
	if errors.Is(err, fs.ErrPermission) {
		return a, fmt.Errorf("%w: only the user that started the node can read it", err)
	}
	if err != nil {
		return a, err
	}
	if err = json.Unmarshal(data, &a); err == nil {
		_, _, err = a.key()
	}
	if err != nil {
		return a, fmt.Errorf("%s: %w: the next start of the node makes another one", name, err)
	}
	return a, nil
}

// Option authenticates a connection with the store's key.
func (a Access) Option() nats.Option {
	return func(o *nats.Options) error {
		key, public, err := a.key()
		if err != nil {
			return err
		}
		return nats.Nkey(public, key.Sign)(o)
	}
}

func (a Access) key() (key nkeys.KeyPair, public string, err error) {
	if key, err = nkeys.FromSeed([]byte(a.Seed)); err != nil {
		return nil, "", err
	}
	public, err = key.PublicKey()
	return key, public, err
}

// openAccess reads the access in a file. It makes a new one if there is none, if other users could read or write the
// file, or if the file is incomplete after a crash of the machine.
func openAccess(name string) (Access, error) {
	info, err := os.Lstat(name)
	switch {
	case err == nil && info.Mode() == 0o600 && ownFile(info):
		if a, err := readAccess(name); err == nil {
			return a, nil
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Access{}, err
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return Access{}, err
	}
	seed, err := key.Seed()
	if err != nil {
		return Access{}, err
	}
	a := Access{Seed: string(seed)}
	return a, a.write(name)
}

// write replaces the file atomically. The server has locked the store, so no other process writes it.
func (a Access) write(name string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	next := name + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // another user may have made it, and have it open
		return err
	}
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// requireKey makes the server refuse connections without the store's key.
func (s *Server) requireKey(store string, opts *server.Options) error {
	a, err := openAccess(AccessFile(store))
	if err != nil {
		return err
	}
	_, public, err := a.key()
	if err != nil {
		return err
	}
	s.access, opts.Nkeys = &a, []*server.NkeyUser{{Nkey: public}}
	return nil
}

// Loopback reports whether a host can be reached from the same machine only.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
