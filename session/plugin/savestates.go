package plugin

import "context"

// WithSave sets the function that records the states of the session's plugins.
func (c Call) WithSave(save func(context.Context) error) Call {
	c.save = save
	return c
}

// CanSave reports whether SaveStates can record states: it cannot outside of a running turn.
func (c Call) CanSave() bool { return c.save != nil }

// SaveStates records the changed states of the session's plugins, and returns when the history has them. After an
// error the call must not continue.
func (c Call) SaveStates(ctx context.Context) error {
	if c.save == nil {
		return &Failure{Class: ClassUnavailable, Code: CodeUnavailable, Message: "no state can be recorded during this call"}
	}
	return c.save(ctx)
}

type saveKey struct{}

// WithSave returns a context for hooks of a running turn, which can record the states of the session's plugins.
func WithSave(ctx context.Context, save func(context.Context) error) context.Context {
	return context.WithValue(ctx, saveKey{}, save)
}

// SaveOf is the function of [WithSave], which does what [Call.SaveStates] does; nil outside of a running turn.
func SaveOf(ctx context.Context) func(context.Context) error {
	save, _ := ctx.Value(saveKey{}).(func(context.Context) error) // nil without one
	return save
}
