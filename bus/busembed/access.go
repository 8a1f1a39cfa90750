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
)

// accessName is the file in the store directory that says how the store's
// server is reached. Only its owner can read it.
const accessName = "access.json"

// Access is how processes of the same user reach a server that is [Config.Keyed].
type Access struct {
	URL  string `json:"url"`  // at which the server listens, or listened last; empty before it did
	Seed string `json:"seed"` // of the NATS nkey that the server takes, and no other
}

// AccessFile is where the access of a store's server lies.
func AccessFile(store string) string { return filepath.Join(filepath.Clean(store), accessName) }

// ReadAccess reads the access of a store's server, which may run or not. The
// error is [fs.ErrNotExist] where the store has none.
func ReadAccess(store string) (Access, error) {
	var a Access
	name := AccessFile(store)
	data, err := os.ReadFile(name)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	if _, _, err := a.key(); err != nil {
		return a, fmt.Errorf("%s: seed: %w", name, err)
	}
	return a, nil
}

// Option proves to the server that the process may read the store.
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

// openAccess reads the store's access, or makes one: also where others made the file
// or could have read it, or it was cut short by the end of the machine.
func openAccess(store string) (Access, error) {
	info, err := os.Lstat(filepath.Join(filepath.Clean(store), accessName))
	switch {
	case err == nil && info.Mode() == 0o600 && ownFile(info):
		if a, err := ReadAccess(store); err == nil {
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
	return a, a.write(store)
}

// write replaces the file whole. The server has locked the store: no other process writes.
func (a Access) write(store string) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Clean(store), accessName+".next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // others may have it open
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
	return os.Rename(next, filepath.Join(filepath.Clean(store), accessName))
}

// key makes the server refuse connections without the store's key.
func (s *Server) key(store string, opts *server.Options) error {
	a, err := openAccess(store)
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

// Loopback reports whether only processes of the same machine reach a host.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
