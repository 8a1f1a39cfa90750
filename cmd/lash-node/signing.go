package main

import "github.com/lash-go/lash/cmd/internal/connect"

// signingFlags are the flags of commands that sign a record with a node's key.
type signingFlags struct {
	personFlags
	Keys string `help:"Directory with a node's key and certificate, which sign the record; lash-node keys makes one. Defaults to keys in --store. With --nats and without it the record is not signed." placeholder:"DIR" type:"path"`
}

// sign sets the signer, where there is one.
func (f *signingFlags) sign(s *streams) (err error) {
	store := f.Store
	if f.NATS != "" {
		store = ""
	}
	f.keys, err = connect.SigningKeys(s, f.Keys, store)
	return err
}
