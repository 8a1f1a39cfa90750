package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/session/keyring"
)

type keysBodiesCmd struct {
	Make   bodiesMakeCmd   `cmd:"" help:"Make a file with one key."`
	Add    bodiesAddCmd    `cmd:"" help:"Add a key, which only decrypts until use makes it the current one."`
	Use    bodiesUseCmd    `cmd:"" help:"Make a key the current one, which encrypts."`
	Forget bodiesForgetCmd `cmd:"" help:"Remove a key. What it encrypted cannot be read any more once no copy of the key is left."`
	Show   bodiesShowCmd   `cmd:"" help:"List the ids of the keys in a file, the current one first."`
}

// Help is shown by --help.
func (*keysBodiesCmd) Help() string {
	return `The keys encrypt what sessions say before a server stores it: lash-node serve --bodies-key FILE. Every node of a tenant has
the same file, and only these nodes and the auditors who may read have it. A node reads it once, at start.

To rotate: add a key, give the file to every node and restart them; then use the key, and do that again. Older keys still
decrypt. To erase what a key encrypted, forget it everywhere, and in backups of the file.`
}

// bodiesFile is the file of a command of keys bodies.
type bodiesFile struct {
	File string `required:"" help:"File of the keys of bodies." placeholder:"FILE" type:"path"`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// print lists the ids of the keys.
func (f *bodiesFile) print(s *streams, k *bodykey.Keys, err error) error {
	if err != nil {
		return fmt.Errorf("--file %s: %w", f.File, err)
	}
	if f.JSON {
		return writeJSON(s, map[string]any{"file": f.File, "current": k.Current(), "keys": k.IDs()})
	}
	for _, id := range k.IDs() {
		if id == k.Current() {
			write(s.Out, "key %d encrypts and decrypts\n", id)
		} else {
			write(s.Out, "key %d decrypts\n", id)
		}
	}
	return nil
}

// change changes the file, and lists the ids of its keys.
func (f *bodiesFile) change(s *streams, change func(*bodykey.Keys) (*bodykey.Keys, error)) error {
	if err := program.CheckFile(f.File); err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	k, err := keyring.ChangeBodies(f.File, change)
	return f.print(s, k, err)
}

type bodiesMakeCmd struct{ bodiesFile }

// Run makes the file.
func (c *bodiesMakeCmd) Run(s *streams) error {
	k, err := keyring.MakeBodies(c.File)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: lash-node keys bodies add adds a key to it", err)
	}
	return c.print(s, k, err)
}

type bodiesAddCmd struct{ bodiesFile }

// Run adds a key.
func (c *bodiesAddCmd) Run(s *streams) error {
	return c.change(s, func(k *bodykey.Keys) (*bodykey.Keys, error) {
		k, _, err := k.Add()
		return k, err
	})
}

// bodiesKeyID names a key of the file.
type bodiesKeyID struct {
	Key uint32 `arg:"" name:"id" help:"Id of the key, as show lists it."`
	bodiesFile
}

type bodiesUseCmd struct{ bodiesKeyID }

// Run changes the current key.
func (c *bodiesUseCmd) Run(s *streams) error {
	return c.change(s, func(k *bodykey.Keys) (*bodykey.Keys, error) { return k.Use(c.Key) })
}

type bodiesForgetCmd struct{ bodiesKeyID }

// Run removes a key.
func (c *bodiesForgetCmd) Run(s *streams) error {
	return c.change(s, func(k *bodykey.Keys) (*bodykey.Keys, error) { return k.Forget(c.Key) })
}

type bodiesShowCmd struct{ bodiesFile }

// Run lists the ids.
func (c *bodiesShowCmd) Run(s *streams) error {
	if err := program.CheckFile(c.File); err != nil {
		return fmt.Errorf("--file: %w", err)
	}
	k, err := keyring.LoadBodies(c.File)
	return c.print(s, k, err)
}
