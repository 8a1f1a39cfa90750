package main

import (
	"errors"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/program"
)

type configCmd struct{}

func (configCmd) Help() string {
	return `Print a file of settings for lash-node serve, each with what it is and its default, as a comment. JSON may have comments there:

  lash-node config > lash.json
  lash-node serve --config lash.json

lash-node chat and lash-node check take the same file.`
}

// Run prints the settings of serve.
func (configCmd) Run(all *kong.Kong, s *streams) error {
	for _, c := range all.Model.Children {
		if c.Name == "serve" {
			return program.WriteSettings(s.Out, c)
		}
	}
	return errors.New("there is no command serve")
}
