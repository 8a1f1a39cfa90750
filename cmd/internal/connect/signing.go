package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/keyring"
)

// SigningKeys loads the keys of a node that sign a record: those in dir, or those of the store where dir is empty. nil: there are
// none, which the command says. An explicit directory must have some.
func SigningKeys(s *program.Streams, dir, store string) (*keyring.Keys, error) {
	from := dir
	switch {
	case from == "" && store == "":
		s.Printf("the record is not signed: --keys DIR names a node's key and certificate")
		return nil, nil //nolint:nilnil // no keys is no error
	case from == "":
		from = keyring.Dir(store)
	}
	keys, err := keyring.Load(from, time.Now())
	switch {
	case err == nil:
		return keys, nil
	case dir != "":
		return nil, fmt.Errorf("--keys %s: %w: lash-node keys makes keys and certificates", dir, err)
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("the store has no keys")
	}
	s.Printf("the record is not signed: %v", err)
	return nil, nil //nolint:nilnil // no keys is no error
}
