package wire

import "github.com/lash-go/lash/events"

// SessionStart places a session on an instance of a plugin of scope session. The instance answers with [Placed] before
// it gets the session's calls and hooks, which have the same epoch. A later start with a higher epoch, here or on
// another instance, ends the placement: the instance refuses the calls of lower epochs with [CodeNotOwner].
type SessionStart struct {
	Session events.SessionID  `json:"session"`
	Parent  events.SessionID  `json:"parent,omitempty"`
	Epoch   int64             `json:"epoch"`          // from 1
	Term    string            `json:"term,omitempty"` // see [Call]
	Labels  map[string]string `json:"labels,omitempty"`
	// IdleMS is the time without a call or hook after which nodes send [Idle]; 0: they do not. After twice this time the
	// instance decides without it, as the node may be gone.
	IdleMS int64 `json:"idle_ms,omitempty"`
}

// Placed answers a [SessionStart].
type Placed struct {
	Error *Error `json:"error,omitempty"`
}

// Idle tells an instance that a session on it had no call for some time. The instance may
// end what it keeps for the session: the next call follows a [SessionStart] with a new epoch.
type Idle struct {
	Session events.SessionID `json:"session"`
	Epoch   int64            `json:"epoch"`
	QuietMS int64            `json:"quiet_ms"` // time without a call, as this node knows it; another node may have sent one since
}

// IdleAnswer answers an [Idle].
type IdleAnswer struct {
	Ended bool `json:"ended"` // the instance has ended the placement
}
