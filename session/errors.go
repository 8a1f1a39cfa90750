package session

import "github.com/lash-go/lash/session/api"

// Errors of the service, see package api; those of histories are in package events.
var (
	ErrExists      = api.ErrExists
	ErrClosed      = api.ErrClosed
	ErrOpening     = api.ErrOpening
	ErrTurnRunning = api.ErrTurnRunning
	ErrUnknownTurn = api.ErrUnknownTurn
	ErrUnknownNode = api.ErrUnknownNode
	ErrDifferent   = api.ErrDifferent
)
