package api

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
)

// Configures is the field that needs [RightConfigure] in addition to the operation's right, because it sets the
// configuration of the session or the words of the system. Empty: none does. A snapshot does, because a caller may
// have written it.
func (r *CreateRequest) Configures() string {
	switch {
	case len(r.Options) > 0:
		return "options"
	case r.Config.Protocol != "":
		return "config.protocol"
	case r.Config.Environment != "":
		return "config.environment"
	case r.Config.RetainMillis != 0:
		return "config.retain_ms"
	case r.Config.Instructions != "":
		return "config.instructions"
	case len(r.Config.Layers) > 0:
		return "config.layers"
	case !r.Access.IsZero():
		return "access"
	case !r.Subagent.IsZero():
		return "subagent"
	case r.Start == StartSnapshot:
		return "snapshot"
	case !r.Overlay.IsZero():
		return "overlay"
	case r.First != nil && r.First.Role == events.RoleSystem:
		return "first.role"
	}
	return systemNode(r.Nodes)
}

// Configures is like [CreateRequest.Configures].
func (r *TurnRequest) Configures() string {
	switch in := &r.Input; {
	case len(in.Plugins) > 0:
		return "input.plugins"
	case len(in.Options) > 0:
		return "input.options"
	case !in.Extension.IsZero():
		return "input.extension"
	case len(in.Layers) > 0: // layers are part of the system prompt
		return "input.layers"
	}
	return ""
}

// Configures is like [CreateRequest.Configures].
func (r *InjectRequest) Configures() string {
	if r.Role == events.RoleSystem {
		return "role"
	}
	return ""
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
