package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/lash-go/lash/session/keyring"
)

// signingFlags are the flags of commands that sign a record with a node's key.
type signingFlags struct {
	personFlags
	Keys string `help:"Directory with a node's key and certificate, which sign the record; lash-node keys makes one. Defaults to keys in --store. With --nats and without it the record is not signed." placeholder:"DIR" type:"path"`
}

// sign sets the signer. A store without usable keys has none, which the command says; an explicit directory must have one.
func (f *signingFlags) sign(s *streams) error {
	dir := f.Keys
	switch {
	case dir == "" && f.NATS != "":
		s.Printf("the record is not signed: --keys DIR names a node's key and certificate")
		return nil
	case dir == "":
		dir = keyring.Dir(f.Store)
	}
	keys, err := keyring.Load(dir, time.Now())
	switch {
	case err == nil:
		f.keys = keys
		return nil
	case f.Keys != "":
		return fmt.Errorf("--keys %s: %w: lash-node keys makes keys and certificates", dir, err)
	case errors.Is(err, fs.ErrNotExist):
		err = errors.New("the store has no keys")
	}
	s.Printf("the record is not signed: %v", err)
	return nil
}
