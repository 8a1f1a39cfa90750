package api

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Configures is the field that needs [RightConfigure] in addition to the operation's right, because it sets the
// configuration of the session or the words of the system. Empty: none does. A snapshot does, because a caller may
// have written it.
func (r *CreateRequest) Configures() string {
	c := &r.Config
	return cmp.Or(firstGiven(
		given{"options", len(r.Options) > 0}, given{"config.protocol", c.Protocol != ""}, given{"config.environment", c.Environment != ""},
		given{"config.retain_ms", c.RetainMillis != 0}, given{"config.instructions", c.Instructions != ""}, given{"config.layers", len(c.Layers) > 0},
		given{"access", !r.Access.IsZero()}, given{"subagent", !r.Subagent.IsZero()}, given{"snapshot", r.Start == StartSnapshot},
		given{"overlay", !r.Overlay.IsZero()}, given{"first.role", r.First != nil && r.First.Role == events.RoleSystem},
	), systemNode(r.Nodes))
}

// given is a field, and whether a request has it.
type given struct {
	field string
	is    bool
}

func firstGiven(list ...given) string {
	for _, g := range list {
		if g.is {
			return g.field
		}
	}
	return ""
}

// Configures is like [CreateRequest.Configures].
func (r *TurnRequest) Configures() string {
	in := &r.Input
	return firstGiven(
		given{"input.plugins", len(in.Plugins) > 0}, given{"input.options", len(in.Options) > 0}, given{"input.extension", !in.Extension.IsZero()},
		given{"input.layers", len(in.Layers) > 0}, // which are part of the system prompt
	)
}

// Configures is like [CreateRequest.Configures].
func (r *InjectRequest) Configures() string {
	return firstGiven(given{"role", r.Role == events.RoleSystem})
}

// Configures is like [CreateRequest.Configures].
func (r *AppendNodesRequest) Configures() string { return systemNode(r.Nodes) }

// Configures is like [CreateRequest.Configures].
func (r *FrameRequest) Configures() string { return systemNode(r.Nodes) }

// RewriteRequest is the list of messages of a rewritten history.
type RewriteRequest []RewriteMessage

// Configures is like [CreateRequest.Configures].
func (r RewriteRequest) Configures() string {
	for i := range r {
		if r[i].Message.Role == events.RoleSystem {
			return fmt.Sprintf("messages[%d].role", i)
		}
	}
	return ""
}

// systemNode is the field of the first message with the system role.
func systemNode(list []AppendNode) string {
	for i := range list {
		if m := list[i].Message; m != nil && m.Role == events.RoleSystem {
			return fmt.Sprintf("nodes[%d].message.role", i)
		}
	}
	return ""
}

// TakeRequest is [TakeRequestMeta] for a request whose content may need [RightConfigure]. It refuses a caller whose scope
// lacks that right at once; [Authorize] refuses a caller that lacks it in the session. Requests without a caller, and
// those of code that an operation calls, are exempt. Errors: an [*events.FieldError] that is [ErrForbidden].
func TakeRequest(ctx context.Context, says interface{ Configures() string }) (context.Context, RequestMeta, error) {
	_, taken := ctx.Value(requestMetaKey{}).(takenRequestMeta)
	ctx, a := TakeRequestMeta(ctx)
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok || taken {
		return ctx, a, nil
	}
	if r.configures = says.Configures(); r.configures == "" {
		return ctx, a, nil
	}
	return context.WithValue(ctx, callerKey{}, r), a, Configuring(ctx, r.configures)
}

// Configuring refuses a field to a caller of a context whose scope lacks [RightConfigure].
func Configuring(ctx context.Context, field string) error {
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok || r.caller.Scope.Has(RightConfigure) {
		return nil
	}
	r.configures = field
	return r.lacksConfigure()
}

func (r *authorization) lacksConfigure() error {
	return &events.FieldError{
		Field: r.configures, Err: ErrForbidden,
		Reason: fmt.Sprintf("needs the right %q, which %s lacks", RightConfigure, r.caller.Name),
	}
}
