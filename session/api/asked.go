package api

import "context"

// Asked is on whose behalf something is done that was asked for through a
// door, and under which key, so that asking again is the same request. A door
// says so with [WithAsked].
type Asked struct {
	Actor string // as the door authenticated it: histories name it. Empty: the host
	// Key of the request, and the id of what it makes where it gives none. The
	// commit that it leads to has the key, so that a repeat finds the commit,
	// whenever and wherever it comes, and is answered as the first was. In any
	// other request the key is [ErrDifferent]. Empty: nothing is looked for.
	Key string
}

type askedKey struct{}

// takenAsked is what [TakeAsked] leaves.
type takenAsked struct {
	actor string // who asked for all of it
}

// WithAsked attaches who asked, and the key, for one method of the host. Calls that this method
// makes with the context of [TakeAsked] keep the actor and lose the key: they are requests of their own.
func WithAsked(ctx context.Context, a Asked) context.Context {
	return context.WithValue(ctx, askedKey{}, a)
}

// TakeAsked takes what [WithAsked] put in: the context that it returns has the actor alone.
func TakeAsked(ctx context.Context) (context.Context, Asked) {
	switch a := ctx.Value(askedKey{}).(type) {
	case Asked:
		return context.WithValue(ctx, askedKey{}, takenAsked{actor: a.Actor}), a
	case takenAsked:
		return ctx, Asked{Actor: a.actor}
	}
	return context.WithValue(ctx, askedKey{}, takenAsked{}), Asked{}
}
