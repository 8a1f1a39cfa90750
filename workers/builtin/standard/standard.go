// Package standard is the protocol of tool calling: the model sees its tools, calls them, and answers in prose. It is
// the default protocol of a session.
package standard

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// ID names the protocol in configurations and histories.
const ID = events.StandardProtocol

// Factory builds the protocol for every session that names it, or none.
func Factory() plugin.Factory { return factory{} }

type factory struct{}

func (factory) ID() string { return ID }

func (factory) Wants(in plugin.BuildContext) bool {
	return in.Config.Protocol == "" || in.Config.Protocol == ID
}

func (factory) Build(plugin.BuildContext) (plugin.Plugin, error) { return protocol{}, nil }

type protocol struct{ plugin.BaseProtocol }

func (p protocol) Register(r *plugin.Registrar) error {
	r.Protocol(p)
	r.Driver(p)
	return nil
}

// Preamble implements [plugin.Driver]: replies need no translation.
func (protocol) Preamble(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }
