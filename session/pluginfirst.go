package session

// decideWithPlugins makes a decision that needs an answer of the plugins. Plugins are called without the session's
// lock, so the session may change before the decision:
//
//	call    reads a state and calls the plugins; done ends the request without a decision
//	        another request changes what the answer depends on
//	decide  decides under the lock: it sees the change, appends nothing and reports stale
//	call    calls the plugins again, for the new state
//
// decide is the guard: it compares the state under the lock with the one that call read. It sets stale on every try,
// because a conflict makes the host decide again.
func decideWithPlugins(call func() (done bool, err error), decide func() (stale bool, err error)) error {
	for {
		if done, err := call(); done || err != nil {
			return err
		}
		if stale, err := decide(); !stale || err != nil {
			return err
		}
	}
}
