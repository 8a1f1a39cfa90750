package plugin

import "context"

type saveKey struct{}

// WithSave returns a context for hooks of a running turn. save records the changed states of the session's plugins, and returns when the history
// has them. After an error the hook must not continue.
func WithSave(ctx context.Context, save func(context.Context) error) context.Context {
	return context.WithValue(ctx, saveKey{}, save)
}

// SaveOf is the function of [WithSave]; nil outside of a running turn.
func SaveOf(ctx context.Context) func(context.Context) error {
	save, _ := ctx.Value(saveKey{}).(func(context.Context) error) // nil without one
	return save
}
