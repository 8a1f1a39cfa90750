package code

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/code/internal/sandbox"
)

// ID names the protocol in configurations and histories.
const ID = "code"

// Limits bound one program. Each zero field has the default of the sandbox.
type Limits = sandbox.Limits

// Config configures the protocol.
type Config struct {
	Limits Limits // of one program. Defaults to those of the sandbox
}

// Factory builds the protocol for every session that names it. Programs that compute at the same time have the memory of [memory.Default], where the
// limits have no other, and those of one session at most half of it.
func Factory(cfg Config) plugin.Factory {
	if cfg.Limits.Memory == nil {
		one := max(cfg.Limits.MemoryBytes, 128<<20)
		bytes := max(memory.Default(), one)
		cfg.Limits.Memory = memory.NewPool(bytes, max(bytes/2, one))
	}
	return factory{cfg}
}

type factory struct{ cfg Config }

func (factory) ID() string { return ID }

func (factory) Wants(in plugin.BuildContext) bool { return in.Config.Protocol == ID }

func (f factory) Build(plugin.BuildContext) (plugin.Plugin, error) {
	return &protocol{limits: f.cfg.Limits}, nil
}

type protocol struct {
	plugin.BaseProtocol
	limits sandbox.Limits
}

func (p *protocol) Register(r *plugin.Registrar) error {
	r.Protocol(p)
	r.Driver(driver{})
	r.CodeExecutor(&executor{limits: p.limits})
	return nil
}

func (*protocol) ValidateTurn(_ context.Context, in events.TurnInput) error {
	if _, err := ParseOptions(in.Options); err != nil {
		return fmt.Errorf("%w: %w", api.ErrProtocol, err)
	}
	if !in.Output.IsZero() {
		return &events.FieldError{Field: "input.output", Reason: "programs submit values: give the option finish_schema instead", Err: api.ErrProtocol}
	}
	return nil
}

// Configure makes the plugin options of a session's creation its durable turn options, in all frames. Options that
// are already set stay.
func (*protocol) Configure(_ context.Context, rt *plugin.ProtocolRuntime, m plugin.Materialization) error {
	options, found, err := plugin.DecodeOptions[json.RawMessage](m.Options, ID)
	if err != nil || !found || rt.Options() != nil {
		return err
	}
	if _, err := ParseOptions(options); err != nil {
		return err
	}
	rt.SetOptionsAllFrames(options)
	return nil
}
